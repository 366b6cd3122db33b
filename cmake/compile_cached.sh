#!/bin/sh
# compile_cached.sh CCACHE COMPILER ARGUMENTS...: the compiler through ccache, which may take a precompiled header's
# macros and time stamps as unchanged, since it compares the contents. What a source depends on is the compiler's word
# (CCACHE_DEPEND), which saves running the preprocessor once more. An old precompiled header goes before its new one is
# made: it would be read in place of the headers.
export CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_DEPEND=1
case "$*" in
    *" -x c++-header "*)
        for argument; do
            case "$argument" in *.gch) rm -f "$argument" ;; esac
        done
        ;;
esac
exec "$@"
