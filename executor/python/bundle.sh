#!/bin/sh
# bundle.sh BUILD_DIR OUT: the package's planning half (mc2, mc2.torch) in OUT/mc2 with the libraries that it needs beside it, for
# machines that have Python and PyTorch but not these libraries. They need the same Python version and this glibc or a later one.
set -eu
package=$1/executor/python/mc2 out=$2/mc2
mkdir -p "$out/lib"
cp -r "$package"/*.py "$package"/*.pyi "$package"/py.typed "$package"/torch "$out"
cp "$package"/../mc2_vllm.py "$out/.."
cp "$package"/_core.*.so "$out"
strip --strip-unneeded "$out"/_core.*.so
ldd "$package"/_core.*.so | awk '$3 ~ /^\// {print $1, $3}' | while read -r name path; do
  case $name in
    libc.so* | libm.so* | libpthread.so* | libdl.so* | librt.so* | libstdc++.so* | libgcc_s.so*) ;; # every machine has them
    *) cp -L "$path" "$out/lib/$name" ;;
  esac
done
du -sh "$out"
