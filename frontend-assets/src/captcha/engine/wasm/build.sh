#!/bin/sh
# Compiles pow.c to captcha.wasm (SIMD) and captcha-scalar.wasm, into the given folder or beside the source:
#
#	frontend-assets/src/captcha/engine/wasm/build.sh [folder]
#
# It needs clang and wasm-ld of LLVM 14; on Debian 12: apt-get install clang lld. Other releases give other bytes. The results are
# committed, so that nobody needs a C compiler to build Tallygate; SHA256SUMS says of which source they were made. The linker is
# called directly: through clang it would run the wasm-opt of the PATH, if there is one.
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
