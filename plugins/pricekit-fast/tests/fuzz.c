/* Calls the functions of kernel.c with arbitrary arguments in buffers of exactly the sizes that they are told.
 *
 *     cc -g -O1 -fno-math-errno -fsanitize=address,undefined -fno-sanitize-recover=all fuzz.c -o fuzz && ./fuzz SECONDS SEED
 */
#include "../src/pricekit_fast/kernel.c"

#include <stdio.h>
#include <time.h>

static uint64_t state;

static uint64_t draw(void) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return mixed(state);
}

static int64_t below(int64_t limit) { return limit > 0 ? (int64_t)(draw() % (uint64_t)limit) : 0; }

/* A number that is often in range, sometimes just outside, and seldom anything. */
static int64_t near(int64_t limit) {
    const int64_t kind = below(200);
    return kind == 0 ? (int64_t)draw() : kind == 1 ? limit : kind == 2 ? -1 : below(limit);
}

static void *some(int64_t items, size_t size) {
    uint8_t *bytes = malloc((size_t)items * size + !items);
    for (int64_t i = 0; i < items * (int64_t)size; i++) bytes[i] = (uint8_t)draw();
    return bytes;
}

static int64_t *offsets(int64_t items, int64_t size) {
    int64_t *offset = malloc((size_t)(items + 1) * sizeof *offset), at = 0;
    for (int64_t i = 0; i <= items; i++) offset[i] = at = below(3) ? at + below((size - at) / 2 + 1) : at;
    if (!below(10)) offset[below(items + 1)] = near(size + 1);
    if (below(3)) offset[items] = size;
    return offset;
}

static uint8_t *text(int64_t size) {
    static const char *pieces[] = {"tea ", "Tea", "\n", " ", ". ", "!", ",", "\xC3\xA9", "\xE3\x80\x80", "\xC2", "\xF0\x9D",
                                   "\xE2\x80", "a1", "\t", "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz"};
    uint8_t *data = some(size, 1);
    for (int64_t at = 0; at < size && below(50);) {
        const char *piece = pieces[below(sizeof pieces / sizeof *pieces)];
        for (int64_t i = 0; piece[i] && at < size; i++) data[at++] = (uint8_t)piece[i];
    }
    return data;
}

static void words(void) {
    const int64_t size = below(400), texts = below(6);
    uint8_t *data = text(size);
    int64_t *offset = offsets(texts, size), number = pricekit_count_words(data, size, offset, texts);
    const int64_t room = number < 0 || !below(9) ? below(30) : number;
    int64_t *edge = some(2 * room, 8), *each[6];
    uint64_t *hash = some(room, 8);
    for (int i = 0; i < 6; i++) each[i] = some(texts, 8);
    const int64_t found = pricekit_words(data, size, offset, texts, room, edge, hash, each[0], each[1], each[2], each[3], each[4]);
    if (found >= 0) {
        if (found != number || found > room) abort();
        if (texts && !below(20)) each[0][below(texts)] = near(room);
        pricekit_distinct(hash, found, each[0], texts, each[5]);
        const int64_t bits = 1 + below(8);
        int64_t *table = some(((int64_t)1 << bits) + 1, 8), columns = below(4);
        pricekit_sum_words(table, bits, hash, found, each[0], texts, each[5]);
        int64_t *category = some(texts * columns, 8);
        for (int64_t i = 0; i < texts; i++) each[4][i] = near(each[0][i] + 1);
        pricekit_sum_crosses(table, bits, hash, found, each[0], each[4], texts, category, columns, each[5]);
        uint64_t *key = some((int64_t)1 << bits, 8);
        int32_t *place = some((int64_t)1 << bits, 4);
        int64_t *numbers = some(found, 8);
        if (!pricekit_index(hash, found, bits, key, place)) pricekit_find(hash, found, key, place, bits, numbers);
        free(table), free(category), free(key), free(place), free(numbers);
    }
    for (int i = 0; i < 6; i++) free(each[i]);
    free(data), free(offset), free(edge), free(hash);
}

static void trees(void) {
    const int64_t nodes = below(60), columns = 1 + below(5), number = below(5);
    int64_t *column = some(nodes, 8), *right = some(nodes, 8), *root = some(number, 8), *from = some(nodes, 8), *to = some(nodes, 8);
    float *value = some(nodes, 4);
    for (int64_t i = 0; i < nodes; i++) {
        column[i] = below(2) ? LEAF : near(columns);
        value[i] = (float)below(2000) - 1000.0f;
        right[i] = i + 2 + (below(4) ? 0 : near(nodes));
    }
    for (int64_t i = 0; i < number; i++) root[i] = i ? near(nodes) : 0;
    pricekit_leaf_ranges(column, value, right, nodes, columns, root, number, from, to);
    free(column), free(right), free(root), free(from), free(to), free(value);

    const int64_t cuts = below(50), leaves = below(300), rows = below(5), width = near(columns + 1), occurrences = below(20);
    if (width < 0 || width > 9) return;
    Cut *cut = some(cuts, sizeof *cut);
    int64_t *first_cut = offsets(columns, cuts), *first_word = offsets(number, 8), *first_leaf = offsets(number, leaves);
    for (int64_t i = 0; i < cuts; i++) cut[i].word = (int32_t)near(8), cut[i].threshold = (float)below(3);
    int64_t *leaf = some(leaves, 8), *row = some(occurrences, 8), *word = some(occurrences, 8), *sum = some(rows, 8);
    for (int64_t i = 0; i < leaves; i++) leaf[i] = below(100);
    for (int64_t i = 0, at = 0; i < occurrences; i++) {
        row[i] = below(40) ? (at += below(3) == 0 && at + 1 < rows) : near(rows);
        word[i] = near(columns - width);
    }
    float *dense = some(rows * width, 4);
    pricekit_leaves(cut, first_cut, columns, cuts, first_word, first_leaf, number, leaf, leaves, dense, rows, width, row, word,
                    occurrences, sum);
    free(cut), free(first_cut), free(first_word), free(first_leaf), free(leaf), free(row), free(word), free(sum), free(dense);
}

int main(int count, char **arguments) {
    const long seconds = count > 1 ? atol(arguments[1]) : 5;
    state = count > 2 ? strtoull(arguments[2], NULL, 10) : (uint64_t)time(NULL);
    const uint64_t seed = state;
    const time_t end = time(NULL) + seconds;
    uint64_t rounds = 0;
    do {
        for (int i = 0; i < 200; i++, rounds++) {
            words();
            trees();
        }
    } while (time(NULL) < end);
    printf("%llu rounds from seed %llu\n", (unsigned long long)rounds, (unsigned long long)seed);
    return 0;
}
