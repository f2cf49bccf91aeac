# How the programs of the tests are built: part of the Makefile.

TESTS    := $(B)/tests/mkresult $(B)/tests/h5spec_tables $(filter-out $(if $(call on,$(JPEG)),,%/test_h5jpeg), \
              $(patsubst tests/%.c,$(B)/tests/%,$(wildcard tests/test_*.c))) \
            $(if $(TIFF_JPEG),$(patsubst %,$(B)/tests/%,mkslide jpeg_streams jpeg_tiles upstream/libh5upstream.so)) \
            $(if $(call on,$(OPENSLIDE)),$(B)/tests/slide_pixels) \
            $(if $(call on,$(CUDA)),$(patsubst %,$(B)/tests/%,h5spec_stub h5spec_stub_no_jpeg gpu_log2 gpu_crc \
              jpeg_device))

TEST_OBJECTS = $(COMMON) $(filter-out $(B)/process/h5spec.o,$(PROCESS)) $(CUDAOBJ)

$(B)/tests/mkslide: $(wildcard tests/mkslide*.c) $(filter $(B)/common/base/%,$(COMMON))
	$(link) $(call pkg,--cflags --libs,libtiff-4 libjpeg libopenjp2) -lm
$(B)/tests/jpeg_tiles: tests/jpeg_tiles.c
	$(link) $(call pkg,--cflags --libs,libtiff-4 libjpeg)
$(B)/tests/upstream/libh5upstream.so: tests/h5jpeg_upstream.c $(B)/config
	$(call show,LD $@)$(CC) -std=c11 -O2 $(WARN) $(HDF5_CFLAGS) -shared -fPIC -o $@ $< $(call pkg,--libs,libjpeg)
$(B)/tests/slide_pixels: tests/slide_pixels.c
	$(link) $(call pkg,--cflags --libs,openslide) -lm
$(B)/tests/test_%: EXTRA = $(HDF5_CFLAGS)
$(B)/tests/test_%: tests/test_%.c $(TEST_OBJECTS)
	$(link) $(CUDA_LIBS) $(LDLIBS)
# h5spec with a stub of the CUDA runtime and cuFFT, for machines without a GPU
# the stub's own declarations of cuFile come first: a toolkit may have none, or others
$(call objects,tests/stub*.c): EXTRA = -isystem tests/stub_include $(CUDA_CFLAGS)
$(B)/tests/gds.o: cuda/gds.c $(B)/config
	$(call show,CC $<)$(CC) $(CFLAGS) $(BASE) $(DEFS) -DHAVE_CUFILE -isystem tests/stub_include $(CUDA_CFLAGS) \
	  -c -o $@ $<
# device code never runs there, so it is compiled for no GPU and without optimisation
STUB_CUDA = $(patsubst %.cu,$(B)/stub/%.o,$(wildcard cuda/*.cu cuda/*/*.cu))
$(STUB_CUDA): GENCODE = -gencode=arch=compute_90$(comma)code=compute_90 -Xcicc -O0
$(B)/stub/%.o: %.cu $(B)/config | needs
	$(call show,NVCC $<)$(NVCC) $(NVFLAGS) -c -o $@ $<
STUBBED   = $(PROCESS) $(STUB_CUDA) $(call objects,$(filter-out %/gds.c %/cufft.c,$(wildcard cuda/*.c cuda/*/*.c))) \
              $(B)/tests/gds.o $(call objects,tests/stub*.c)
$(B)/tests/h5spec_stub: $(STUBBED) $(COMMON)
	$(link) -lstdc++ $(LDLIBS)
# the same without libjpeg
$(B)/tests/no_jpeg.o: common/codec/jpeg_decoder.c $(B)/config
	$(call show,CC $<)$(CC) $(CFLAGS) $(BASE) -c -o $@ $<
$(B)/tests/h5spec_stub_no_jpeg: $(STUBBED) $(B)/tests/no_jpeg.o $(filter-out %/jpeg_decoder.o,$(COMMON))
	$(link) -lstdc++ $(LDLIBS)
# h5spec whose merge writes a table of any number of slides
$(B)/tests/tables.o: common/result/result_merge.c $(B)/config
	$(call show,CC $<)$(CC) $(CFLAGS) $(BASE) $(DEFS) $(HDF5_CFLAGS) -DTABLE_FROM=1 -c -o $@ $<
$(B)/tests/h5spec_tables: $(PROCESS) $(CUDAOBJ) $(B)/tests/tables.o $(filter-out %/result_merge.o,$(COMMON))
	$(link) $(CUDA_LIBS) $(LDLIBS)
$(B)/tests/mkstore $(B)/tests/mkresult $(B)/tests/bench_read: $(B)/tests/%: tests/%.c $(COMMON)
	$(link) $(LDLIBS)
$(B)/tests/jpeg_device: $(B)/tests/jpeg_device.o $(filter $(B)/cuda/jpeg/jpeg%,$(CUDAOBJ)) $(COMMON)
	$(link) $(CUDA_LIBS) -lstdc++ $(LDLIBS)
$(B)/tests/jpeg_streams: tests/jpeg_streams.c
	$(link) $(call pkg,--cflags --libs,libtiff-4 libjpeg) -lm
$(B)/tests/gpu_log2: $(B)/tests/gpu_log2.o $(B)/cuda/check.o $(COMMON)
	$(link) $(CUDA_LIBS) $(LDLIBS)
$(B)/tests/gpu_crc: $(B)/tests/gpu_crc.o $(B)/cuda/crc.o $(COMMON)
	$(link) $(CUDA_LIBS) $(LDLIBS)
$(B)/tests/bench_feed: $(B)/tests/bench_feed.o $(COMMON)
	$(link) $(CUDA_LIBS) $(LDLIBS)
$(B)/tests/bench_nvjpeg: $(B)/tests/bench_nvjpeg.o $(COMMON)
	$(link) $(CUDA_LIBS) -lnvjpeg $(LDLIBS)
$(B)/tests/bench_kernels: $(B)/tests/bench_kernels.o $(TEST_OBJECTS)
	$(link) $(CUDA_LIBS) -lcufft $(LDLIBS)
# the same with the kernels of GPUs that hold one block per multiprocessor
$(B)/tests/%_small.o: tests/%.cu $(B)/config
	$(call show,NVCC $<)$(NVCC) $(NVFLAGS) -DFUSED_RESIDENT=1 -c -o $@ $<
$(B)/tests/%_small.o: cuda/%.cu $(B)/config
	$(call show,NVCC $<)$(NVCC) $(NVFLAGS) -DFUSED_RESIDENT=1 -c -o $@ $<
$(B)/tests/bench_kernels_small: $(B)/tests/bench_kernels_small.o $(B)/tests/fused_small.o \
  $(filter-out %/fused.o,$(TEST_OBJECTS))
	$(link) $(CUDA_LIBS) -lcufft $(LDLIBS)
$(B)/tests/bench_peers: EXTRA = -O3
$(B)/tests/bench_peers: tests/bench_peers.c
	$(link) $(call pkg,--cflags --libs,$(SLIDE_PC) fftw3f libdeflate) -lm

# what the sweeps of tests/torture preload, and their tool for checksums of HDF5 metadata
TORTURE  := $(patsubst %,$(B)/tests/torture_%,shim.so alloc.so where.so alone.so h5sum $(if $(TIFF_JPEG),abi.so))
$(B)/tests/torture_shim.so $(B)/tests/torture_alloc.so: tests/torture/server.c tests/torture/server.h
$(B)/tests/torture_%.so: tests/torture/%.c $(B)/config
	$(call show,LD $@)$(CC) -std=c11 -O2 $(WARN) $(HDF5_CFLAGS) -shared -fPIC -o $@ $(filter %.c,$^) -ldl
$(B)/tests/torture_h5sum: tests/torture/h5sum.c $(B)/config
	$(call show,LD $@)$(CC) -std=c11 -O2 -D_GNU_SOURCE $(WARN) -DH5SUM_MAIN -o $@ $<

# fuzz targets; FUZZ_MAIN runs them over files, or is libFuzzer
FUZZ     := $(if $(TIFF_JPEG),$(patsubst tests/fuzz/fuzz_%.c,$(B)/tests/fuzz_%, \
              $(filter-out %/fuzz_hdf5.c,$(wildcard tests/fuzz/fuzz_*.c))))
FUZZ_MAIN = $(B)/tests/fuzz/replay.o
FUZZ_HDF5 =
DIRECT    = $(filter-out %/slide_metadata.o %/slide_openslide.o, \
              $(call objects,$(patsubst %,convert/%/*.c,privacy tile readers readers/*)))
$(B)/tests/fuzz/%.o $(B)/convert/readers/frame/no_openslide.o: \
  EXTRA = $(call pkg,--cflags,$(SLIDE_PC)) $(HDF5_CFLAGS)
$(FUZZ): $(B)/tests/fuzz_%: $(B)/tests/fuzz/fuzz_%.o $(B)/tests/fuzz/fuzz.o $(FUZZ_MAIN)
	$(link) $(call pkg,--libs,$(SLIDE_PC)) $(CUDA_LIBS) $(LDLIBS)
$(B)/tests/fuzz_slide: $(DIRECT) $(COMMON)
$(B)/tests/fuzz_jpeg: $(COMMON)
$(B)/tests/fuzz_store $(B)/tests/fuzz_result: $(TEST_OBJECTS) $(FUZZ_HDF5)
$(B)/tests/fuzz_table: $(TEST_OBJECTS)
$(B)/tests/fuzz_text: $(TEST_OBJECTS) $(filter-out $(B)/convert/wsi2h5.o,$(CONVERT))

FUZZ_BUILD = B=build/fuzz CC=clang SAN=fuzzer-no-link,address,undefined CUDA=0 OPENSLIDE=0 CFLAGS='-O1 -g' \
             FUZZ_MAIN= FUZZ_HDF5='build/fuzz/tests/fuzz/fuzz_hdf5.o build/fuzz/tests/torture/h5sum.o' \
             LDFLAGS=-fsanitize=fuzzer
build/fuzz/tests/fuzz/fuzz_hdf5.o build/fuzz/tests/torture/h5sum.o: override SAN =
