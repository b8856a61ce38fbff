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
        int64_t *row = some(found, 8);
        if (!pricekit_index(hash, found, bits, key, place))
            pricekit_find(hash, found, each[0], texts, key, place, bits, row, numbers);
        free(table), free(category), free(key), free(place), free(numbers), free(row);
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

static void tokens(void) {
    static Cache *cache;
    if (!cache || !below(30)) pricekit_cache_free(cache), cache = pricekit_cache_new(draw());
    const int64_t size = below(400), texts = below(6);
    uint8_t *data = text(size);
    int64_t *offset = offsets(texts, size), *length = some(texts, 8);
    const int64_t new = pricekit_cache_find(cache, data, size, offset, texts, near(300), near(50) - 1, near(200), near(2000));
    if (new > 0) {
        int64_t *start = some(new + 1, 8), bytes = pricekit_cache_waiting(cache, new, start, 0, data);
        if (bytes < 0) abort();
        uint8_t *words = some(bytes, 1);
        if (pricekit_cache_waiting(cache, new, start, bytes, words) != bytes) abort();
        const int64_t ids = below(4 * new);
        int64_t *ends = offsets(new, ids);
        int32_t *id = some(ids, 4);
        if (below(20)) pricekit_cache_fill(cache, new, ends, id, ids);
        free(start), free(words), free(ends), free(id);
    }
    const int64_t some_texts = below(20) ? texts : near(6), most = near(30);
    if (some_texts <= texts) {
        const int64_t ids = pricekit_cache_lengths(cache, some_texts, most, length);
        if (ids >= 0) {
            if (texts && !below(10)) length[below(texts)] = near(30);
            int32_t *id = some(ids, 4);
            pricekit_cache_ids(cache, some_texts, length, ids, id);
            const int64_t rows = below(5), long_ = below(40);
            int64_t *row = some(rows, 8), *padded = some(rows * long_, 8), *mask = some(rows * long_, 8);
            int64_t *begin = offsets(some_texts, ids);
            for (int64_t i = 0; i < rows; i++) row[i] = near(some_texts);
            pricekit_pad(id, ids, begin, some_texts, row, rows, 7, long_, padded, mask);
            free(id), free(row), free(padded), free(mask), free(begin);
        }
    }
    free(data), free(offset), free(length);
}

static void forms(void) {
    static uint8_t *kind;
    if (!kind) kind = some(CHARACTERS, 1);
    const int64_t size = below(400), texts = below(6), room = below(5);
    uint8_t *data = text(size), *odd = some(texts, 1);
    int64_t *offset = offsets(texts, size);
    int32_t *unknown = some(room, 4);
    pricekit_odd_texts(data, size, offset, texts, kind, room, unknown, odd);
    free(data), free(odd), free(offset), free(unknown);
}

static void bags(void) {
    const int64_t rows = below(4), length = below(6), table_rows = 1 + below(20), width = 1 + below(20);
    int64_t hash[] = {near(600), near(300), near(1000), near(table_rows), near(table_rows)};
    int64_t *id = some(rows * length, 8), *mask = some(rows * length, 8);
    for (int64_t i = 0; i < rows * length; i++) id[i] = near(table_rows), mask[i] = below(50) ? below(2) : (int64_t)draw();
    float *lead = some(length, 4), *idf = some(table_rows, 4), *table = some(table_rows * width, 4), *out = some(rows * width, 4);
    pricekit_bag(id, mask, rows, length, hash, lead, idf, table, table_rows, width, out);
    free(id), free(mask), free(lead), free(idf), free(table), free(out);
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
            tokens();
            forms();
            bags();
        }
    } while (time(NULL) < end);
    printf("%llu rounds from seed %llu\n", (unsigned long long)rounds, (unsigned long long)seed);
    return 0;
}
