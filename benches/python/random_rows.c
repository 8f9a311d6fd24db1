// What memory allows: rows of tables are read, changed and written, and nothing else is done.
#include <stddef.h>
#include <stdint.h>

enum { AHEAD = 24, LINE = 64 };

// Adds `what` to all words of the rows `at`, which are in one table of rows of `words` words.
void change_rows(uint64_t *table, const int64_t *at, ptrdiff_t rows, ptrdiff_t words,
                 uint64_t what) {
    for (ptrdiff_t row = 0; row < rows; row++) {
        if (row + AHEAD < rows) {
            const char *next = (const char *)(table + at[row + AHEAD] * words);
            for (ptrdiff_t byte = 0; byte < words * (ptrdiff_t)sizeof *table; byte += LINE)
                __builtin_prefetch(next + byte, 1, 2);
        }
        uint64_t *words_of = table + at[row] * words;
        for (ptrdiff_t word = 0; word < words; word++)
            words_of[word] += what;
    }
}
