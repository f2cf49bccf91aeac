cudaError_t fused_prepare_1(void);
void fused_windows_1(const struct fused_args *a, cudaStream_t stream);
cudaError_t fused_prepare_2(void);
void fused_windows_2(const struct fused_args *a, cudaStream_t stream);
cudaError_t fused_prepare_3(void);
void fused_windows_3(const struct fused_args *a, cudaStream_t stream);
cudaError_t fused_prepare_4(void);
void fused_windows_4(const struct fused_args *a, cudaStream_t stream);
#define LADDER RUNG(1, "1 exchanges without bank conflicts") RUNG(2, "2 pairs") RUNG(3, "3 quads") RUNG(4, "4 barrier")
