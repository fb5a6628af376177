#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs the build into a directory of its own and uses only what is there, as a stranger would: headers that stand
# alone in C and C++, the library's name and symbols, pkg-config, manual pages, the examples built from a copy outside of
# the source tree and run as two ranks, and the program in README.md.
#
# Usage: test_install.sh SOURCE-ROOT BUILD-ROOT. Each check prints `ok:`, `failed:` or `skipped:`; the last line counts.
set -u
source_root=$1
build_root=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
stage="$scratch/stage"
passed=0 failed=0 skipped=0

ok() {
    passed=$((passed + 1))
    printf 'ok: %s\n' "$1"
}
bad() {
    failed=$((failed + 1))
    printf 'failed: %s\n' "$1"
}
skip() {
    skipped=$((skipped + 1))
    printf 'skipped: %s\n' "$1"
}
# check NAME COMMAND...: the command's output is shown if it fails.
check() {
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then
        ok "$name"
    else
        bad "$name"
        printf '%s\n' "$output" | head -n 40
    fi
}

check "the build installs" env DESTDIR="$stage" meson install -C "$build_root" --no-rebuild
header_dir=$(dirname "$(find "$stage" -name tutti.h -path '*/tutti/tutti.h' | head -n 1)")
library=$(find "$stage" -name 'libtutti.so.*.*' -type f | head -n 1)
library_dir=$(dirname "$library")
prefix_include=$(dirname "$header_dir")
export PKG_CONFIG_SYSROOT_DIR="$stage" PKG_CONFIG_LIBDIR="$library_dir/pkgconfig"
export LD_LIBRARY_PATH="$library_dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# --- Headers ---

for header in "$header_dir"/*.h; do
    name="tutti/$(basename "$header")"
    # Twice, so that a missing guard shows; with a use of the C11 and of the C++11 compiler and no GNU extensions.
    printf '#include <%s>\n#include <%s>\nint tutti_used(void);\nint tutti_used(void) { return 0; }\n' "$name" "$name" \
        >"$scratch/header.c"
    check "$name stands alone in C11" gcc -std=c11 -pedantic-errors -Wall -Wextra -Werror -I"$prefix_include" \
        -c "$scratch/header.c" -o "$scratch/header.o"
    if command -v g++ >/dev/null; then
        check "$name stands alone in C++11" g++ -std=c++11 -pedantic-errors -Wall -Wextra -Werror -I"$prefix_include" \
            -x c++ -c "$scratch/header.c" -o "$scratch/header.o"
    else
        skip "$name in C++11: there is no C++ compiler"
    fi
done

headers_are_the_sources_headers() {
    diff <(cd "$source_root/include/tutti" && ls ./*.h) <(cd "$header_dir" && ls ./*.h)
}
check "every public header is installed and no other" headers_are_the_sources_headers

# --- The library ---

soname_is() { [ "$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')" = "$1" ]; }
check "the soname is libtutti.so.0" soname_is libtutti.so.0
links_lead_to_it() { [ "$(readlink -f "$library_dir/libtutti.so")" = "$(readlink -f "$library")" ] &&
    [ "$(readlink -f "$library_dir/libtutti.so.0")" = "$(readlink -f "$library")" ]; }
check "libtutti.so and libtutti.so.0 lead to the library" links_lead_to_it

symbols_are_the_maps() {
    diff <(sed -n 's/^ *\(tutti_[a-z_0-9]*\);/\1/p' "$source_root/src/libtutti.map" | sort) \
        <(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort)
}
check "the library exports what the version map says, all of it and nothing else" symbols_are_the_maps
symbols_have_a_version() {
    ! nm -D --defined-only "$library" | awk '$2 != "A" && $3 !~ /@@TUTTI_/' | grep .
}
check "every exported symbol has a version" symbols_have_a_version
no_text_relocations() { ! readelf -d "$library" | grep TEXTREL; }
check "the library has no text relocations" no_text_relocations
needs_only_what_exists() { ! ldd "$library" | grep 'not found'; }
check "the library's own needs are found" needs_only_what_exists

# --- pkg-config and the manual ---

check "pkg-config knows tutti" pkg-config --exists --print-errors tutti
version_agrees() {
    local header
    header=$(printf '#include <tutti/tutti.h>\nTUTTI_VERSION_MAJOR TUTTI_VERSION_MINOR TUTTI_VERSION_PATCH\n' |
        gcc -E -P -I"$prefix_include" -xc - | tail -n 1 | tr ' ' .)
    echo "pkg-config $(pkg-config --modversion tutti), header $header, file $library"
    [ "$(pkg-config --modversion tutti)" = "$header" ] && [[ $library == *.so.$header ]]
}
check "pkg-config, header and file name have one version" version_agrees
pkg_config_needs_no_other_package() { [ -z "$(pkg-config --print-requires tutti)" ]; }
check "a program that uses tutti needs no other package's headers" pkg_config_needs_no_other_package

for page in "$source_root"/docs/man/*.[1-9]; do
    installed=$(find "$stage" -path "*/man/man${page##*.}/$(basename "$page")*" | head -n 1)
    check "$(basename "$page") is installed" test -n "$installed"
    if ! command -v mandoc >/dev/null; then
        skip "$(basename "$page") is not checked: there is no mandoc"
    elif [ -n "$installed" ]; then
        check "$(basename "$page") is good mdoc" mandoc -T lint -W warning "$installed"
    fi
done

# --- The examples, against what is installed ---

cp -r "$source_root/examples" "$scratch/examples"
check "the examples build with pkg-config alone" make -C "$scratch/examples" CFLAGS="-O2 -Wall -Wextra -Werror"
tutti=$(find "$stage" -name tutti -path '*/bin/tutti' | head -n 1)
for example in "$source_root"/examples/*.c; do
    name=$(basename "$example" .c)
    if [ -z "$tutti" ]; then
        skip "$name as two ranks: no program tutti is built"
        continue
    fi
    built="$scratch/examples/$name"
    linked_to_the_installed() { ldd "$built" | grep -F "$library_dir/libtutti.so.0"; }
    check "$name is linked to the installed library" linked_to_the_installed
    check "$name runs as two ranks" timeout 60 "$tutti" run -n 2 -- "$built"
    check "$name runs alone" timeout 60 "$built"
done

# --- The program in README.md, which is what a stranger tries first ---

awk '/^```c$/ { inside = 1; next } /^```$/ { inside = 0 } inside' "$source_root/README.md" >"$scratch/hello.c"
build_hello() {
    # shellcheck disable=SC2046 # a list of flags
    grep -q main "$scratch/hello.c" && gcc -std=c11 -Wall -Wextra -Werror "$scratch/hello.c" -o "$scratch/hello" \
        $(pkg-config --cflags --libs tutti)
}
check "the program in README.md builds with pkg-config alone" build_hello
if [ -n "$tutti" ]; then
    everybody_is_greeted() {
        local output rank
        output=$(timeout 60 "$tutti" run -n 2 -- "$scratch/hello" 2>&1) || { echo "$output" && return 1; }
        for rank in 0 1; do
            grep -q "rank $rank: hello, all 2 of you" <<<"$output" || { echo "no rank $rank: $output" && return 1; }
        done
    }
    check "the program in README.md greets as two ranks" everybody_is_greeted
else
    skip "the program in README.md as two ranks: no program tutti is built"
fi
if [ -n "$tutti" ]; then
    program_says_version() { [[ $("$tutti" --version) == *"$(pkg-config --modversion tutti)"* ]]; }
    check "the program says the library's version" program_says_version
fi

printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
[ "$failed" -eq 0 ]
