"""The native backend: Programs compiled by LLVM for the processor at hand."""
