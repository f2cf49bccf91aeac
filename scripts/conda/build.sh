#!/bin/bash
# conda build runs this in a copy of the source, with the compiler and PREFIX of its environment.
set -eu
export PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig:$PREFIX/share/pkgconfig
words=(CUDA=0 PREFIX="$PREFIX" CC="${CC:-cc}" CFLAGS="${CFLAGS:--O2 -g} ${CPPFLAGS:-} -I$PREFIX/include"
       LDFLAGS="${LDFLAGS:-} -L$PREFIX/lib")
make -j"${CPU_COUNT:-1}" "${words[@]}" all
make "${words[@]}" HDF5_PLUGINS="$(build/wsi2h5 --version | sed -n 's/^HDF5 plug-ins: //p')" install
