/* test_result.c - the maps of results, of each type: fill values, and adding parts up. */
#include "common/result/result.h"
#include "tests/unit.h"

#include <math.h>
#include <stdint.h>

static const struct result_map_kind of_float = {
    .name = "a", .type = RESULT_FLOAT32, .unit = "dB", .scale = 1, .fill = NAN};
static const struct result_map_kind of_int = {
    .name = "b", .type = RESULT_INT16, .unit = "dB", .scale = 0.01, .fill = -32768};
static const struct result_map_kind of_byte = {
    .name = "c", .type = RESULT_UINT8, .unit = "", .scale = 1, .fill = 32};

/* A part brings its values; where it has none, the sum keeps its own. */
static void test_maps_of_float(void)
{
    float sum[3] = {0}, part[3] = {5, NAN, 7};
    struct result_map a = {&of_float, sum, false}, b = {&of_float, part, false};
    result_map_clear(&a, 0, 3);
    EXPECT(isnan(sum[0]) && isnan(sum[2]));
    sum[1] = 1;
    result_map_add(&a, &b, 3);
    EXPECT(sum[0] == 5 && sum[1] == 1 && sum[2] == 7);
}

static void test_maps_of_int16(void)
{
    int16_t sum[3] = {0}, part[3] = {0, -32768, -5};
    struct result_map a = {&of_int, sum, false}, b = {&of_int, part, false};
    result_map_clear(&a, 1, 2);
    EXPECT(sum[0] == 0 && sum[1] == -32768 && sum[2] == -32768);
    sum[0] = 9;
    sum[1] = 300;
    result_map_add(&a, &b, 3);
    EXPECT(sum[0] == 0 && sum[1] == 300 && sum[2] == -5);
}

static void test_maps_of_bytes(void)
{
    uint8_t sum[3] = {0}, part[3] = {1, 32, 0};
    struct result_map a = {&of_byte, sum, false}, b = {&of_byte, part, false};
    result_map_clear(&a, 0, 3);
    EXPECT(sum[0] == 32 && sum[1] == 32 && sum[2] == 32);
    sum[1] = 65;
    result_map_add(&a, &b, 3);
    EXPECT(sum[0] == 1 && sum[1] == 65 && sum[2] == 0);
}

/* Any number of values is cleared, and none beside them. */
static void test_clearing_a_part(void)
{
    for (int n = 0; n <= 40; n++) {
        int16_t values[42];
        struct result_map m = {&of_int, values, false};
        for (int k = 0; k < 42; k++)
            values[k] = 7;
        result_map_clear(&m, 1, n);
        for (int k = 0; k < 42; k++)
            EXPECT(values[k] == (k >= 1 && k <= n ? -32768 : 7));
    }
}

/* The table is complete, and its names are those of the format. */
static void test_table_of_maps(void)
{
    for (int m = 0; m < RESULT_MAPS; m++) {
        const struct result_map_kind *k = result_map_kind(m);
        EXPECT(k->name && k->unit && k->scale > 0);
        EXPECT(result_type_bytes(k->type) > 0);
    }
}

int main(void)
{
    return UNIT_RUN("result_maps", UNIT(maps_of_float), UNIT(maps_of_int16), UNIT(maps_of_bytes),
                    UNIT(clearing_a_part), UNIT(table_of_maps));
}
