"""Widths of codes: the indicator columns of labels, −1 if missing."""

from libc.stdint cimport int16_t, int32_t

ctypedef fused column:
    int16_t
    int32_t
