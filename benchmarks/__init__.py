"""Benchmarks of coterie: ``python -m benchmarks NAME``.

:data:`benchmarks.harness.BENCHMARKS` lists them. A benchmark is a module with a function
``run(context, **settings) -> Result``; ``docs/benchmarks`` explains what each one measures.
"""
