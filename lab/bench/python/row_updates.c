// The least work of an update: gradients of a row's lookups are read and added up, and the row is
// read, changed and written, with a number of its state. Lookups are sorted beforehand, and there is
// no optimizer.
#include <stddef.h>
#include <stdint.h>

enum { AHEAD = 24, LINE = 64, WIDTH = 16 };

typedef float vector __attribute__((vector_size(4 * WIDTH), aligned(4)));
typedef int32_t whole __attribute__((vector_size(4 * WIDTH)));
typedef int16_t halves __attribute__((vector_size(2 * WIDTH), aligned(2)));

struct lookups {
    const int64_t *rows;  // the distinct rows
    const int64_t *ends;  // behind each row's last lookup
    const int64_t *bags;  // whose gradient each lookup has
    ptrdiff_t count;      // of distinct rows
};

// Changes rows of `columns` elements of `bytes` bytes. Rows of 16 bits change as whole numbers,
// because their conversion is not the memory's work.
static inline __attribute__((always_inline)) void change(char *table, float *state,
                                                         const struct lookups *of,
                                                         const float *grads, ptrdiff_t stride,
                                                         ptrdiff_t columns, ptrdiff_t bytes) {
    for (ptrdiff_t at = 0; at < of->count; at++) {
        if (at + AHEAD < of->count) {
            int64_t next = of->rows[at + AHEAD];
            for (ptrdiff_t byte = 0; byte < columns * bytes; byte += LINE)
                __builtin_prefetch(table + next * columns * bytes + byte, 0, 2);
            __builtin_prefetch(state + next, 0, 2);
        }
        vector sum[8] = {0};
        for (int64_t lookup = at ? of->ends[at - 1] : 0; lookup < of->ends[at]; lookup++)
            for (ptrdiff_t part = 0; part < columns / WIDTH; part++)
                sum[part] += ((const vector *)(grads + of->bags[lookup] * stride))[part];
        state[of->rows[at]] += sum[0][0];
        char *row = table + of->rows[at] * columns * bytes;
        for (ptrdiff_t part = 0; part < columns / WIDTH; part++)
            if (bytes == 2)
                ((halves *)row)[part] +=
                    __builtin_convertvector(__builtin_convertvector(sum[part], whole), halves);
            else
                ((vector *)row)[part] += sum[part];
    }
}

// Gradients are `stride` numbers apart. Returns 1 if there is no loop for rows of this size.
int change_rows(char *table, float *state, const struct lookups *of, const float *grads,
                ptrdiff_t stride, ptrdiff_t columns, ptrdiff_t bytes) {
#define CASE(c, b) \
    if (columns == c && bytes == b) return change(table, state, of, grads, stride, c, b), 0
    CASE(16, 4);
    CASE(64, 4);
    CASE(128, 4);
    CASE(64, 2);
    CASE(128, 2);
    return 1;
}
