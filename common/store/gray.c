/* gray.c - gray of RGB rows, four pixels at a time if the processor has SSSE3; see gray.h. */
#include "common/store/gray.h"

#ifdef __x86_64__
#include <immintrin.h>

/* Four pixels per step: 16-bit R and G times their weights, added in pairs, then B. A step reads 16
 * bytes for its 12, so the last pixels are left to the caller. Returns the number of pixels done.
 */
__attribute__((target("ssse3"))) static size_t by_fours(const uint8_t *restrict rgb,
                                                        float *restrict gray, size_t n)
{
    const __m128i rg = _mm_setr_epi8(0, -1, 1, -1, 3, -1, 4, -1, 6, -1, 7, -1, 9, -1, 10, -1);
    const __m128i b = _mm_setr_epi8(2, -1, -1, -1, 5, -1, -1, -1, 8, -1, -1, -1, 11, -1, -1, -1);
    const __m128i weights_rg = _mm_set1_epi32(299 | 587 << 16), weight_b = _mm_set1_epi32(114);
    size_t k = 0;
    for (; k + 6 <= n; k += 4) {
        const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(rgb + 3 * k));
        const __m128i sum = _mm_add_epi32(_mm_madd_epi16(_mm_shuffle_epi8(v, rg), weights_rg),
                                          _mm_madd_epi16(_mm_shuffle_epi8(v, b), weight_b));
        _mm_storeu_ps(gray + k, _mm_cvtepi32_ps(sum));
    }
    return k;
}
#endif

void gray_from_rgb(const uint8_t *restrict rgb, float *restrict gray, size_t n)
{
    size_t k = 0;
#ifdef __x86_64__
    if (__builtin_cpu_supports("ssse3"))
        k = by_fours(rgb, gray, n);
#endif
    for (; k < n; k++)
        gray[k] = (float)(299 * rgb[3 * k] + 587 * rgb[3 * k + 1] + 114 * rgb[3 * k + 2]);
}
