/* Functions of pricekit in C: see kernel.py, which calls them with numpy's arrays, and pricekit.text.kernel, which says
 * what they compute.
 *
 * Nothing here knows Python, so one library serves all its versions. The bytes are of strangers and need not be UTF-8;
 * each offset is checked before it is used. Functions return a number that is not negative, or a reason to fail: no
 * function writes beyond the sizes that it is told.
 *
 * Floating-point numbers are added in the order of the source (-ffp-contract=off, no -ffast-math), so that all
 * processors have the same sums, with or without AVX2.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#if defined(__x86_64__) && defined(__linux__) && defined(__GLIBC__)
#define WIDE __attribute__((target_clones("avx2", "default")))
#else
#define WIDE
#endif
#define LIKELY(condition) __builtin_expect(!!(condition), 1)

enum { DAMAGED = -1, NO_MEMORY = -2 };

/* Incremented with each change of a function's arguments or meaning. */
EXPORT int64_t pricekit_fast_abi(void) { return 1; }

static int offsets_fit(const int64_t *offset, int64_t items, int64_t size) {
    if (items < 0 || size < 0 || offset[0] < 0 || offset[items] > size) return 0;
    for (int64_t i = 0; i < items; i++)
        if (offset[i] > offset[i + 1]) return 0;
    return 1;
}

/* Texts in lines, words of ASCII letters, digits and other characters than ASCII (pricekit.text.words) */

static const uint8_t IN_WORD[256] = {
    ['0' ... '9'] = 1, ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1, [128 ... 255] = 1,
};

static const uint64_t ODD = 0x9E3779B97F4A7C15ULL;
enum { WORD_BYTES = 64, ROW_BITS = 20 };

static inline uint64_t mixed(uint64_t code) {
    code *= ODD;
    code ^= code >> 32;
    return code * ODD;
}

/* Eight bytes as a number, the first one lowest; zeros beyond the end. */
static inline uint64_t eight(const uint8_t *data, int64_t left) {
    uint64_t bytes = 0;
    memcpy(&bytes, data, left >= 8 ? 8 : (size_t)left);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    bytes = __builtin_bswap64(bytes);
#endif
    return bytes;
}

/* ASCII letters in lower case, eight at a time. */
static inline uint64_t lower(uint64_t bytes) {
    const uint64_t ones = 0x0101010101010101ULL, low = bytes & (0x7f * ones);
    const uint64_t from_a = low + (0x80 - 'A') * ones, beyond_z = low + (0x7f - 'Z') * ones;
    const uint64_t upper = (from_a ^ beyond_z) & ~bytes & (0x80 * ones);
    return bytes | upper >> 2;
}

static inline uint64_t piece(const uint8_t *data, int64_t left, int64_t length) {
    return mixed(lower(eight(data, left)) << (length < 8 ? 8 * (8 - length) : 0));
}

static inline uint64_t word_hash(const uint8_t *data, int64_t left, int64_t length) {
    uint64_t code = piece(data, left, length);
    for (int64_t k = 8; k < WORD_BYTES && k < length; k += 8)
        code = (code * ODD) ^ piece(data + k, left - k, length - k);
    return code;
}

WIDE static int64_t words_in(const uint8_t *data, int64_t bytes) {
    int64_t words = 0;
    uint8_t before = 0;
    for (int64_t begin = 0; begin < bytes; begin += 4096) {
        int64_t end = bytes - begin < 4096 ? bytes : begin + 4096;
        uint32_t some = 0;
        for (int64_t i = begin; i < end; i++) {
            uint8_t inside = IN_WORD[data[i]];
            some += inside & ~before & 1;
            before = inside;
        }
        words += some;
    }
    return words;
}

EXPORT int64_t pricekit_count_words(const uint8_t *data, int64_t bytes, const int64_t *offset, int64_t texts) {
    if (!offsets_fit(offset, texts, bytes)) return DAMAGED;
    int64_t words = 0;
    for (int64_t text = 0; text < texts; text++) words += words_in(data + offset[text], offset[text + 1] - offset[text]);
    return words;
}

/* For each word its edges and its hash; for each text its numbers of words, of bytes in words, of ends of sentences,
 * of commas, and of words in the first line. */
EXPORT int64_t pricekit_words(const uint8_t *data, int64_t bytes, const int64_t *offset, int64_t texts, int64_t words,
                              int64_t *edge, uint64_t *hash, int64_t *count, int64_t *letters, int64_t *sentences,
                              int64_t *commas, int64_t *first_line) {
    if (!offsets_fit(offset, texts, bytes)) return DAMAGED;
    int64_t word = 0;
    for (int64_t text = 0; text < texts; text++) {
        const int64_t end = offset[text + 1], before = word;
        int64_t i = offset[text], inside = 0, ends = 0, comma = 0, line = -1;
        while (i < end) {
            const uint8_t sign = data[i];
            if (!IN_WORD[sign]) {
                if (sign == '\n' && line < 0) line = word - before;
                comma += sign == ',';
                if ((sign == '.' || sign == '!' || sign == '?') && i + 1 < bytes) {
                    const uint8_t follows = data[i + 1];
                    ends += follows == ' ' || (follows >= '\t' && follows <= '\r');
                }
                i++;
                continue;
            }
            const int64_t start = i;
            do i++;
            while (i < end && IN_WORD[data[i]]);
            if (word == words) return DAMAGED;
            edge[2 * word] = start;
            edge[2 * word + 1] = i;
            hash[word++] = word_hash(data + start, bytes - start, i - start);
            inside += i - start;
        }
        count[text] = word - before;
        letters[text] = inside;
        sentences[text] = ends > 0 ? ends : count[text] > 0;
        commas[text] = comma;
        first_line[text] = line < 0 ? word - before : line;
    }
    return word;
}

static int counts_fit(const int64_t *count, int64_t items, int64_t size) {
    int64_t total = 0;
    for (int64_t i = 0; i < items; i++) {
        if (count[i] < 0 || count[i] > size - total) return 0;
        total += count[i];
    }
    return total == size;
}

/* The number of different words of each text, of hashes without their last ROW_BITS. */
EXPORT int64_t pricekit_distinct(const uint64_t *hash, int64_t words, const int64_t *count, int64_t texts,
                                 int64_t *distinct) {
    if (!counts_fit(count, texts, words)) return DAMAGED;
    int64_t most = 0, slots = 16;
    for (int64_t text = 0; text < texts; text++) most = count[text] > most ? count[text] : most;
    while (slots < 2 * most) slots *= 2;
    uint64_t *seen = malloc((size_t)slots * sizeof *seen);
    if (!seen) return NO_MEMORY;
    for (int64_t text = 0; text < texts; hash += count[text++]) {
        int64_t size = 16, different = 0;
        while (size < 2 * count[text]) size *= 2;
        memset(seen, 0, (size_t)size * sizeof *seen);
        for (int64_t i = 0; i < count[text]; i++) {
            const uint64_t key = (hash[i] >> ROW_BITS) + 1; /* 0 is an empty slot */
            uint64_t at = (key * ODD) >> 32 & (uint64_t)(size - 1);
            while (seen[at] && seen[at] != key) at = (at + 1) & (uint64_t)(size - 1);
            different += !seen[at];
            seen[at] = key;
        }
        distinct[text] = different;
    }
    free(seen);
    return 0;
}

/* Sums over the buckets of terms (pricekit.features.trees); tables have 2^bits + 1 numbers. */

enum { AHEAD = 8 };

EXPORT int64_t pricekit_sum_words(const int64_t *table, int64_t bits, const uint64_t *hash, int64_t words,
                                  const int64_t *count, int64_t texts, int64_t *sum) {
    if (bits < 1 || bits > 40 || !counts_fit(count, texts, words)) return DAMAGED;
    const int shift = 64 - (int)bits;
    const uint64_t *last = hash + words;
    for (int64_t text = 0; text < texts; text++) {
        uint64_t total = 0;
        for (int64_t i = 0; i < count[text]; i++, hash++) {
            if (hash + AHEAD + 1 < last) {
                __builtin_prefetch(&table[hash[AHEAD] >> shift]);
                __builtin_prefetch(&table[((hash[AHEAD] * ODD) ^ hash[AHEAD + 1]) * ODD >> shift]);
            }
            total += (uint64_t)table[hash[0] >> shift];
            if (i + 1 < count[text]) total += (uint64_t)table[((hash[0] * ODD) ^ hash[1]) * ODD >> shift];
        }
        sum[text] = (int64_t)total;
    }
    return 0;
}

EXPORT int64_t pricekit_sum_crosses(const int64_t *table, int64_t bits, const uint64_t *hash, int64_t words,
                                    const int64_t *count, const int64_t *first, int64_t texts, const int64_t *category,
                                    int64_t categories, int64_t *sum) {
    if (bits < 1 || bits > 40 || categories < 0 || !counts_fit(count, texts, words)) return DAMAGED;
    const int shift = 64 - (int)bits;
    for (int64_t text = 0; text < texts; hash += count[text++], category += categories) {
        uint64_t total = 0;
        if (first[text] < 0 || first[text] > count[text]) return DAMAGED;
        for (int64_t place = 0; place < categories; place++) {
            if (!category[place]) continue;
            const uint64_t key = mixed((uint64_t)category[place] + ((uint64_t)(place + 1) << 32));
            for (int64_t i = 0; i < first[text]; i++) __builtin_prefetch(&table[mixed(key ^ hash[i]) >> shift]);
            for (int64_t i = 0; i < first[text]; i++) total += (uint64_t)table[mixed(key ^ hash[i]) >> shift];
        }
        sum[text] = (int64_t)total;
    }
    return 0;
}

/* The numbers of known words by their hashes: 2^bits slots, with a number of -1 where one is empty. */

EXPORT int64_t pricekit_index(const uint64_t *known, int64_t numbers, int64_t bits, uint64_t *key, int32_t *number) {
    if (bits < 1 || bits > 30 || numbers < 0 || numbers >= (int64_t)1 << bits) return DAMAGED;
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    for (uint64_t at = 0; at <= mask; at++) number[at] = -1;
    for (int64_t i = 0; i < numbers; i++) {
        uint64_t at = known[i] >> (64 - bits);
        while (number[at] >= 0) at = (at + 1) & mask;
        key[at] = known[i];
        number[at] = (int32_t)i;
    }
    return 0;
}

static inline int32_t number_of(uint64_t hash, const uint64_t *key, const int32_t *number, int64_t bits) {
    const uint64_t mask = ((uint64_t)1 << bits) - 1;
    uint64_t at = hash >> (64 - bits);
    while (number[at] >= 0 && key[at] != hash) at = (at + 1) & mask;
    return number[at];
}

/* The texts and the numbers of the known ones among the words of texts; returns how many they are. */
EXPORT int64_t pricekit_find(const uint64_t *hash, int64_t words, const int64_t *count, int64_t texts,
                             const uint64_t *key, const int32_t *number, int64_t bits, int64_t *row, int64_t *place) {
    if (bits < 1 || bits > 30 || !counts_fit(count, texts, words)) return DAMAGED;
    int64_t matches = 0;
    for (int64_t text = 0; text < texts; text++)
        for (int64_t i = 0; i < count[text]; i++) {
            const int32_t known = number_of(*hash++, key, number, bits);
            row[matches] = text;
            place[matches] = known;
            matches += known >= 0;
        }
    return matches;
}

/* Trees in preorder (pricekit.features.forest), column by column (Lucchese et al. 2015, QuickScorer).
 *
 * Each tree has a set of its leaves, numbered from the left. A node whose condition x <= threshold is false removes the
 * leaves of its left subtree. The first leaf that remains is that of the row. Sets are words of 64 bits; a node that
 * removes leaves of several words has several cuts. Of a column, cuts with low thresholds come first, so the first
 * condition that is true ends the column. */

typedef struct {
    float threshold;
    int32_t word;
    uint64_t kept;
} Cut;

enum { LEAF = -1 };

/* Checks trees, and finds for each node the leaves of its left subtree, numbered over all trees: those from `from` and
 * before `to`; of a leaf, `from` is its number. Returns the number of leaves. */
EXPORT int64_t pricekit_leaf_ranges(const int64_t *column, const float *value, const int64_t *right, int64_t nodes,
                                    int64_t columns, const int64_t *root, int64_t trees, int64_t *from, int64_t *to) {
    if (nodes < 0 || trees < 0 || nodes >= INT32_MAX || columns < 1 || (nodes && !trees)) return DAMAGED;
    int64_t leaves = 0;
    for (int64_t tree = 0; tree < trees; tree++) {
        const int64_t end = tree + 1 < trees ? root[tree + 1] : nodes;
        if (root[tree] < 0 || root[tree] >= end || end > nodes || (tree == 0 && root[0] != 0)) return DAMAGED;
        for (int64_t i = root[tree]; i < end; i++) {
            from[i] = leaves;
            if (column[i] == LEAF) {
                to[i] = ++leaves;
                if (!(value[i] >= -16777216.0f && value[i] <= 16777216.0f)) return DAMAGED;
            } else if (column[i] < 0 || column[i] >= columns || right[i] <= i + 1 || right[i] >= end) {
                return DAMAGED;
            }
        }
    }
    for (int64_t i = 0; i < nodes; i++)
        if (column[i] != LEAF) to[i] = from[right[i]];
    return leaves;
}

/* The sum over the trees of the leaf of each of N rows: D dense columns, and counts of the words that occur.
 *
 * Column c has the cuts from first_cut[c] to first_cut[c + 1]. Tree t has the words from first_word[t], and the leaves
 * from first_leaf[t]. The rows of occurrences ascend; word w is column D + w. */
EXPORT int64_t pricekit_leaves(const Cut *cut, const int64_t *first_cut, int64_t columns, int64_t cuts,
                               const int64_t *first_word, const int64_t *first_leaf, int64_t trees, const int64_t *leaf,
                               int64_t leaves, const float *dense, int64_t rows, int64_t width, const int64_t *row,
                               const int64_t *word, int64_t occurrences, int64_t *sum) {
    if (rows < 0 || width < 0 || width > columns || occurrences < 0 || trees < 0) return DAMAGED;
    if (!offsets_fit(first_cut, columns, cuts) || !offsets_fit(first_leaf, trees, leaves)) return DAMAGED;
    if (!offsets_fit(first_word, trees, INT32_MAX)) return DAMAGED;
    const int64_t words = first_word[trees];
    for (int64_t i = 0; i < cuts; i++)
        if (cut[i].word < 0 || cut[i].word >= words) return DAMAGED;
    for (int64_t i = 0; i < occurrences; i++) {
        if (row[i] < (i ? row[i - 1] : 0) || row[i] >= rows) return DAMAGED;
        if (word[i] < 0 || word[i] >= columns - width) return DAMAGED;
    }
    uint64_t *none = malloc((size_t)(2 * words + 2) * sizeof *none), *left = none + words;
    float *count = calloc((size_t)columns + 1, sizeof *count);
    int64_t state = none && count ? 0 : NO_MEMORY;
    if (!state) {
        memset(none, 0xFF, (size_t)words * sizeof *none);
        for (int64_t c = width; c < columns; c++)
            for (int64_t i = first_cut[c]; i < first_cut[c + 1] && !(0.0f <= cut[i].threshold); i++)
                none[cut[i].word] &= cut[i].kept;
    }
    for (int64_t at = 0, r = 0; r < rows && !state; r++, dense += width) {
        memcpy(left, none, (size_t)words * sizeof *left);
        for (int64_t c = 0; c < width; c++) {
            const float x = dense[c];
            for (int64_t i = first_cut[c]; i < first_cut[c + 1] && !(x <= cut[i].threshold); i++)
                left[cut[i].word] &= cut[i].kept;
        }
        const int64_t begin = at;
        for (; at < occurrences && row[at] == r; at++) count[word[at]] += 1.0f;
        for (int64_t k = begin; k < at; k++) {
            const float x = count[word[k]];
            if (x == 0.0f) continue; /* done */
            count[word[k]] = 0.0f;
            const int64_t c = width + word[k];
            for (int64_t i = first_cut[c]; i < first_cut[c + 1] && !(x <= cut[i].threshold); i++)
                left[cut[i].word] &= cut[i].kept;
        }
        int64_t total = 0;
        for (int64_t tree = 0; tree < trees; tree++) {
            int64_t place = first_word[tree];
            while (place < first_word[tree + 1] && !left[place]) place++;
            if (place == first_word[tree + 1]) return free(none), free(count), DAMAGED;
            const int64_t reached = first_leaf[tree] + 64 * (place - first_word[tree]) + __builtin_ctzll(left[place]);
            if (reached >= first_leaf[tree + 1]) return free(none), free(count), DAMAGED;
            total += leaf[reached];
        }
        sum[r] = total;
    }
    free(none);
    free(count);
    return state;
}

/* The ids of words between spaces, each tokenised once (pricekit.text.tokens) */

typedef struct {
    uint64_t hash, beginning; /* of the word: its first eight bytes */
    int64_t start, bytes;     /* the word, in `text` of the cache */
    int64_t first, ids;       /* its ids, in `id` of the cache; WAITING before they are known */
} Word;

typedef struct {
    uint64_t seed;
    int64_t words, word_room, slots, text_size, text_room, id_size, id_room, known;
    Word *word;
    int32_t *slot; /* the number of a word, -1 where empty */
    uint8_t *text;
    int32_t *id;
    int64_t places, place_room, texts, text_count_room; /* of the last batch: the word at each place, by text */
    int32_t *place;
    int64_t *count;
} Cache;

enum { WAITING = -1 };

static int make_room(void **items, int64_t *room, int64_t wanted, size_t size) {
    if (wanted <= *room) return 1;
    int64_t more = *room < 64 ? 64 : *room;
    while (more < wanted) more *= 2;
    void *moved = realloc(*items, (size_t)more * size);
    if (!moved) return 0;
    *items = moved;
    *room = more;
    return 1;
}

EXPORT void pricekit_cache_free(Cache *cache) {
    if (!cache) return;
    free(cache->word);
    free(cache->slot);
    free(cache->text);
    free(cache->id);
    free(cache->place);
    free(cache->count);
    free(cache);
}

EXPORT Cache *pricekit_cache_new(uint64_t seed) {
    Cache *cache = calloc(1, sizeof *cache);
    if (cache) cache->seed = seed;
    return cache;
}

/* A word of a text that is looked up. */
typedef struct {
    uint64_t hash, beginning;
    const uint8_t *data;
    int64_t bytes;
} Seen;

static int32_t *slot_of(const Cache *cache, const Seen *seen) {
    const uint64_t mask = (uint64_t)cache->slots - 1;
    for (uint64_t at = seen->hash & mask;; at = (at + 1) & mask) {
        const int32_t number = cache->slot[at];
        if (number < 0) return &cache->slot[at];
        const Word *word = &cache->word[number];
        if (word->hash == seen->hash && word->bytes == seen->bytes && word->beginning == seen->beginning &&
            (seen->bytes <= 8 || !memcmp(cache->text + word->start, seen->data, (size_t)seen->bytes)))
            return &cache->slot[at];
    }
}

static int resize(Cache *cache, int64_t slots) {
    int32_t *slot = malloc((size_t)slots * sizeof *slot);
    if (!slot) return 0;
    free(cache->slot);
    cache->slot = slot;
    cache->slots = slots;
    for (int64_t i = 0; i < slots; i++) slot[i] = -1;
    for (int64_t number = 0; number < cache->words; number++) {
        uint64_t at = cache->word[number].hash & (uint64_t)(slots - 1);
        while (slot[at] >= 0) at = (at + 1) & (uint64_t)(slots - 1);
        slot[at] = (int32_t)number;
    }
    return 1;
}

/* The bytes of the white space (Unicode, White_Space) at a position; 0 if there is none. */
static inline int64_t space(const uint8_t *data, int64_t left) {
    const uint8_t first = data[0];
    if (LIKELY(first > ' ' && first < 0xC2)) return 0;
    if (first <= ' ') return first == ' ' || (first >= '\t' && first <= '\r');
    if (first == 0xC2) return left > 1 && (data[1] == 0x85 || data[1] == 0xA0) ? 2 : 0;
    if (left < 3 || first < 0xE1 || first > 0xE3) return 0;
    const int code = first << 16 | data[1] << 8 | data[2];
    const int spaces = (code >= 0xE28080 && code <= 0xE2808A) || code == 0xE19A80 || code == 0xE280A8 ||
                       code == 0xE280A9 || code == 0xE280AF || code == 0xE2819F || code == 0xE38080;
    return spaces ? 3 : 0;
}

enum { SEEN = 32 };

/* Appends words to those of the last batch. The cache may be larger than that of the processor, so all are fetched before
 * the first one is looked up. */
static int look_up(Cache *cache, const Seen *seen, int64_t words) {
    while (2 * (cache->words + words) > cache->slots)
        if (!resize(cache, cache->slots ? 2 * cache->slots : 1024)) return 0;
    if (!make_room((void **)&cache->word, &cache->word_room, cache->words + words, sizeof *cache->word) ||
        !make_room((void **)&cache->place, &cache->place_room, cache->places + words, sizeof *cache->place) ||
        cache->words > INT32_MAX - words)
        return 0;
    const uint64_t mask = (uint64_t)cache->slots - 1;
    for (int64_t i = 0; i < words; i++) __builtin_prefetch(&cache->slot[seen[i].hash & mask]);
    for (int64_t i = 0; i < words; i++) {
        const int32_t number = cache->slot[seen[i].hash & mask];
        if (number >= 0) __builtin_prefetch(&cache->word[number]);
    }
    for (int64_t i = 0; i < words; i++) {
        int32_t *slot = slot_of(cache, &seen[i]);
        if (*slot < 0) {
            const int64_t start = cache->text_size;
            if (!make_room((void **)&cache->text, &cache->text_room, start + seen[i].bytes, 1)) return 0;
            memcpy(cache->text + start, seen[i].data, (size_t)seen[i].bytes);
            cache->text_size += seen[i].bytes;
            cache->word[cache->words] = (Word){seen[i].hash, seen[i].beginning, start, seen[i].bytes, 0, WAITING};
            *slot = (int32_t)cache->words++;
        }
        cache->place[cache->places++] = *slot;
    }
    return 1;
}

/* Appends the words of some bytes to those of the last batch. */
static int read_words(Cache *cache, const uint8_t *data, int64_t bytes, int64_t start, int64_t end) {
    Seen seen[SEEN];
    int64_t words = 0;
    for (int64_t i = start; i < end;) {
        const int64_t blank = space(data + i, end - i);
        if (blank) {
            i += blank;
            continue;
        }
        const int64_t first = i;
        do i++;
        while (i < end && !space(data + i, end - i));
        Seen *word = &seen[words++];
        *word = (Seen){cache->seed, 0, data + first, i - first};
        for (int64_t k = first; k < i; k += 8) {
            uint64_t some = eight(data + k, bytes - k);
            if (i - k < 8) some &= ((uint64_t)1 << 8 * (i - k)) - 1;
            if (k == first) word->beginning = some;
            word->hash = (word->hash ^ some) * ODD;
            word->hash ^= word->hash >> 32;
        }
        word->hash = (word->hash + (uint64_t)word->bytes) * ODD;
        word->hash ^= word->hash >> 32;
        if (words == SEEN) {
            if (!look_up(cache, seen, words)) return 0;
            words = 0;
        }
    }
    return look_up(cache, seen, words);
}

static inline int begins(uint8_t sign) { return (sign & 0xC0) != 0x80; }

static int64_t characters_in(const uint8_t *data, int64_t start, int64_t end) {
    int64_t characters = 0;
    for (int64_t i = start; i < end; i++) characters += begins(data[i]);
    return characters;
}

/* Where some characters from a start end. */
static int64_t after(const uint8_t *data, int64_t start, int64_t end, int64_t characters) {
    if (end - start <= characters) return end;
    int64_t i = start;
    while (i < end && (characters > 0 || !begins(data[i]))) characters -= begins(data[i++]);
    return i;
}

static int64_t line_end(const uint8_t *data, int64_t start, int64_t end) {
    const uint8_t *line_break = start < end ? memchr(data + start, '\n', (size_t)(end - start)) : NULL;
    return line_break ? line_break - data : end;
}

/* Reads the first characters of a text, the short lines directly behind the first line. */
static int read_short_first(Cache *cache, const uint8_t *data, int64_t bytes, int64_t start, int64_t end,
                            int64_t characters, int64_t most) {
    const int64_t first = line_end(data, start, end);
    if (!read_words(cache, data, bytes, start, after(data, start, first, characters))) return 0;
    characters -= characters_in(data, start, first);
    for (int is_long = 0; is_long < 2; is_long++)
        for (int64_t line = first + 1, next; line <= end && characters > 1; line = next + 1) {
            next = line_end(data, line, end);
            if (next - line > 4 * most) { /* certainly long */
                if (!is_long) continue;
            } else if ((characters_in(data, line, next) > most) != is_long) {
                continue;
            }
            characters--; /* the line break */
            if (!read_words(cache, data, bytes, line, after(data, line, next, characters))) return 0;
            characters -= characters_in(data, line, next);
        }
    return 1;
}

/* Finds the words of texts, and returns how many are waiting for their ids. */
EXPORT int64_t pricekit_cache_find(Cache *cache, const uint8_t *data, int64_t bytes, const int64_t *offset,
                                   int64_t texts, int64_t characters, int64_t short_line, int64_t most_words,
                                   int64_t most_bytes) {
    if (!offsets_fit(offset, texts, bytes) || characters < 0 || short_line > INT32_MAX) return DAMAGED;
    if (cache->known < cache->words || cache->words > most_words || cache->text_size > most_bytes) {
        cache->words = cache->known = cache->text_size = cache->id_size = 0;
        if (cache->slots && !resize(cache, cache->slots)) return NO_MEMORY;
    }
    cache->places = cache->texts = 0;
    if (!make_room((void **)&cache->count, &cache->text_count_room, texts, sizeof *cache->count)) return NO_MEMORY;
    for (int64_t text = 0; text < texts; text++) {
        const int64_t start = offset[text], end = offset[text + 1], before = cache->places;
        const int read = short_line < 0
                             ? read_words(cache, data, bytes, start, after(data, start, end, characters))
                             : read_short_first(cache, data, bytes, start, end, characters, short_line);
        if (!read) return NO_MEMORY;
        cache->count[text] = cache->places - before;
    }
    cache->texts = texts;
    return cache->words - cache->known;
}

/* The words that are waiting, end to end, and where each begins and ends; returns their bytes. Without room for them,
 * it does not copy them. */
EXPORT int64_t pricekit_cache_waiting(const Cache *cache, int64_t words, int64_t *start, int64_t room, uint8_t *text) {
    if (words != cache->words - cache->known || words < 1) return DAMAGED;
    const Word *word = cache->word + cache->known;
    for (int64_t i = 0; i < words; i++) start[i] = word[i].start - word[0].start;
    start[words] = cache->text_size - word[0].start;
    if (room >= start[words]) memcpy(text, cache->text + word[0].start, (size_t)start[words]);
    return start[words];
}

/* Stores the ids of the words that are waiting, word after word. */
EXPORT int64_t pricekit_cache_fill(Cache *cache, int64_t words, const int64_t *offset, const int32_t *id, int64_t ids) {
    if (words != cache->words - cache->known || !offsets_fit(offset, words, ids)) return DAMAGED;
    if (!make_room((void **)&cache->id, &cache->id_room, cache->id_size + ids, sizeof *cache->id)) return NO_MEMORY;
    if (ids) memcpy(cache->id + cache->id_size, id, (size_t)ids * sizeof *id);
    for (int64_t i = 0; i < words; i++) {
        cache->word[cache->known + i].first = cache->id_size + offset[i];
        cache->word[cache->known + i].ids = offset[i + 1] - offset[i];
    }
    cache->known = cache->words;
    cache->id_size += ids;
    return 0;
}

/* The number of ids of each text, at most `most`; returns their sum. */
EXPORT int64_t pricekit_cache_lengths(const Cache *cache, int64_t texts, int64_t most, int64_t *length) {
    if (texts != cache->texts || cache->known < cache->words || most < 0) return DAMAGED;
    const int32_t *place = cache->place;
    int64_t sum = 0;
    for (int64_t text = 0; text < texts; place += cache->count[text++]) {
        int64_t ids = 0;
        for (int64_t i = 0; i < cache->count[text] && ids < most; i++) ids += cache->word[place[i]].ids;
        sum += length[text] = ids < most ? ids : most;
    }
    return sum;
}

EXPORT int64_t pricekit_cache_ids(const Cache *cache, int64_t texts, const int64_t *length, int64_t ids, int32_t *id) {
    if (texts != cache->texts || cache->known < cache->words || !counts_fit(length, texts, ids)) return DAMAGED;
    const int32_t *place = cache->place;
    for (int64_t text = 0; text < texts; place += cache->count[text], id += length[text++]) {
        int64_t filled = 0;
        for (int64_t i = 0; i < cache->count[text] && filled < length[text]; i++) {
            const Word *word = &cache->word[place[i]];
            const int64_t left = length[text] - filled, some = word->ids < left ? word->ids : left;
            for (int64_t k = 0; k < some; k++) id[filled + k] = cache->id[word->first + k];
            filled += some;
        }
        if (filled < length[text]) return DAMAGED;
    }
    return 0;
}

/* The ids of some texts in rows of one length, and which of them are theirs. */
EXPORT int64_t pricekit_pad(const int32_t *id, int64_t ids, const int64_t *offset, int64_t texts, const int64_t *row,
                            int64_t rows, int64_t pad, int64_t length, int64_t *padded, int64_t *mask) {
    for (int64_t r = 0; r < rows; r++, padded += length, mask += length) {
        if (row[r] < 0 || row[r] >= texts) return DAMAGED;
        const int64_t start = offset[row[r]], end = offset[row[r] + 1];
        if (start < 0 || end < start || end > ids || end - start > length) return DAMAGED;
        const int64_t filled = end - start;
        for (int64_t i = 0; i < filled; i++) padded[i] = id[start + i];
        for (int64_t i = 0; i < filled; i++) mask[i] = 1;
        for (int64_t i = filled; i < length; i++) padded[i] = pad;
        for (int64_t i = filled; i < length; i++) mask[i] = 0;
    }
    return 0;
}

/* Texts that may have another normal form (pricekit.text.normal): 1 for their blanks, 2 for their characters. */

enum { ODD_BLANK = 1, ODD_CHARACTER = 2, KNOWN = 1, CHANGES = 2, CHARACTERS = 0x110000 };

/* `kind` has KNOWN and CHANGES for each character. Returns how many characters are not KNOWN; `unknown` has the first
 * `most` of them. */
EXPORT int64_t pricekit_odd_texts(const uint8_t *data, int64_t bytes, const int64_t *offset, int64_t texts,
                                  const uint8_t *kind, int64_t most, int32_t *unknown, uint8_t *odd) {
    if (!offsets_fit(offset, texts, bytes)) return DAMAGED;
    int64_t new = 0;
    for (int64_t text = 0; text < texts; text++) {
        const int64_t start = offset[text], end = offset[text + 1];
        uint8_t reasons = 0, before = 'x';
        if (end > start && (data[start] == ' ' || data[end - 1] == ' ')) reasons = ODD_BLANK;
        for (int64_t i = start; i < end; i++) {
            const uint8_t sign = data[i];
            if (sign <= ' ') {
                if ((before <= ' ' && (before != '\n' || sign != '\n')) || (sign >= '\t' && sign < ' ' && sign != '\n'))
                    reasons |= ODD_BLANK;
            } else if (sign >= 0xC0) {
                const int more = sign >= 0xF0 ? 3 : sign >= 0xE0 ? 2 : 1;
                int32_t code = sign & (0x3F >> more);
                for (int k = 1; k <= more; k++) code = code << 6 | (i + k < end ? data[i + k] & 0x3F : 0);
                if (code >= CHARACTERS || kind[code] & CHANGES) reasons |= ODD_CHARACTER;
                else if (!(kind[code] & KNOWN)) {
                    if (new < most) unknown[new] = code;
                    new++;
                }
            }
            before = sign;
        }
        odd[text] = reasons;
    }
    return new;
}

/* The encoding of backbone `bag` (pricekit.nets.bag): w * E of tokens and hashed pairs, with w of length 1. */

enum { TERMS_AT_ONCE = 4, LINE = 64 };

WIDE static void add_terms(const float *const *vector, const float *weight, int64_t width, float *sum) {
    const float *a = vector[0], *b = vector[1], *c = vector[2], *d = vector[3];
    const float u = weight[0], v = weight[1], w = weight[2], x = weight[3];
    for (int64_t i = 0; i < width; i++) sum[i] = sum[i] + u * a[i] + v * b[i] + w * c[i] + x * d[i];
}

/* `hash` has the factors of a pair's ids, the prime, the number of buckets, and the row of the first bucket. */
EXPORT int64_t pricekit_bag(const int64_t *id, const int64_t *mask, int64_t rows, int64_t length, const int64_t *hash,
                            const float *lead, const float *idf, const float *table, int64_t table_rows, int64_t width,
                            float *encoding) {
    const int64_t first = hash[0], second = hash[1], prime = hash[2], buckets = hash[3], begin = hash[4];
    if (rows < 0 || length < 0 || width < 1 || prime < 1 || buckets < 1 || begin < 0 || begin > table_rows - buckets)
        return DAMAGED;
    if (first < 0 || second < 0 || first > INT32_MAX || second > INT32_MAX || table_rows > INT32_MAX) return DAMAGED;
    int64_t *term = malloc((size_t)(2 * length + TERMS_AT_ONCE) * sizeof *term);
    float *weight = malloc((size_t)(2 * length + TERMS_AT_ONCE) * sizeof *weight);
    int64_t state = term && weight ? 0 : NO_MEMORY;
    for (int64_t row = 0; row < rows && !state; row++, id += length, mask += length, encoding += width) {
        int64_t terms = 0;
        for (int kind = 0; kind < 2 && !state; kind++) {
            for (int64_t i = 0; i < length; i++) {
                if (id[i] < 0 || id[i] >= table_rows) {
                    state = DAMAGED;
                    break;
                }
                const int64_t next = i + 1 < length ? id[i + 1] : 0, has_next = i + 1 < length ? mask[i + 1] : 0;
                if (next < 0 || next >= table_rows) continue; /* found when it is i */
                const float shown = (float)(kind ? (int64_t)((uint64_t)mask[i] * (uint64_t)has_next) : mask[i]);
                if (shown == 0.0f) continue;
                const int64_t at = kind ? (id[i] * first + next * second) % prime % buckets + begin : id[i];
                const float some = idf[at] * shown * lead[i];
                if (some == 0.0f) continue;
                term[terms] = at;
                weight[terms++] = some;
                for (int64_t k = 0; k < width; k += LINE / (int64_t)sizeof(float))
                    __builtin_prefetch(table + at * width + k, 0, 2);
            }
        }
        float square = 0.0f;
        for (int64_t i = 0; i < terms; i++) square += weight[i] * weight[i];
        const float scale = __builtin_sqrtf(square > 1e-12f ? square : 1e-12f);
        for (int64_t i = 0; i < terms; i++) weight[i] /= scale;
        for (int64_t i = 0; i < TERMS_AT_ONCE; i++) {
            term[terms + i] = 0; /* of no weight */
            weight[terms + i] = 0.0f;
        }
        memset(encoding, 0, (size_t)width * sizeof *encoding);
        for (int64_t i = 0; i < terms; i += TERMS_AT_ONCE) {
            const float *vector[TERMS_AT_ONCE];
            for (int64_t k = 0; k < TERMS_AT_ONCE; k++) {
                vector[k] = table + term[i + k] * width;
                if (i + k + TERMS_AT_ONCE < terms)
                    for (int64_t at = 0; at < width; at += LINE / (int64_t)sizeof(float))
                        __builtin_prefetch(table + term[i + k + TERMS_AT_ONCE] * width + at);
            }
            add_terms(vector, weight + i, width, encoding);
        }
    }
    free(term);
    free(weight);
    return state;
}
