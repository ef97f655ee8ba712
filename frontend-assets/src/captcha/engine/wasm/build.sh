#!/bin/sh
# Compiles pow.c to captcha.wasm (SIMD) and captcha-scalar.wasm, in the given folder or the source's:
#
#	frontend-assets/src/captcha/engine/wasm/build.sh [folder]
#
# It needs clang and wasm-ld of LLVM 14; on Debian 12: apt-get install clang lld. Other releases
# produce other bytes. The results are committed, so that building Tallygate needs no C compiler;
# SHA256SUMS records their source. The linker is called directly because clang would run the wasm-opt
# on the PATH, if there is one.
set -eu

here=$(dirname "$0")
to=${1:-$here}
object=$(mktemp)
trap 'rm -f "$object"' EXIT

compile() { # name, flags
	name=$1
	shift
	clang --target=wasm32 -ffreestanding -fvisibility=hidden -O3 -Wall -Wextra "$@" -c "$here/pow.c" -o "$object"
	wasm-ld --no-entry --strip-all -z stack-size=8192 --initial-memory=65536 "$object" -o "$to/$name"
}

compile captcha.wasm -msimd128 -DLANES=4
compile captcha-scalar.wasm -DLANES=1

if [ "$to" = "$here" ]; then
	cd "$here"
	sha256sum pow.c build.sh captcha.wasm captcha-scalar.wasm >SHA256SUMS
fi
