"""Tell whether the processor has the instructions that kernels are compiled a second time for."""

cdef extern from *:
    """
    #if defined(__x86_64__) && defined(__GNUC__)
    #include <cpuid.h>
    static int coterie_is_wide(void) {
        unsigned a, b, c, d;
        if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return 0;
        if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2)) return 0;
        /* the operating system saves the wide registers, too */
        __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
        return (a & 6) == 6;
    }
    #else
    static int coterie_is_wide(void) { return 0; }
    #endif
    """
    bint is_wide "coterie_is_wide"() noexcept nogil
