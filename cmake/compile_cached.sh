#!/bin/sh
# compile_cached.sh CCACHE COMPILER ARGUMENTS...: the compiler through ccache, which may take a precompiled header's
# macros and time stamps as unchanged, since it compares the contents. An old precompiled header goes before its new one
# is made: it would be read in place of the headers.
export CCACHE_SLOPPINESS=pch_defines,time_macros
case "$*" in
    *" -x c++-header "*)
        for argument; do
            case "$argument" in *.gch) rm -f "$argument" ;; esac
        done
        ;;
esac
exec "$@"
