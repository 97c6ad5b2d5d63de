/* Train on what inputs.h holds; print every loss, what the trained model infers, and the stack used, as bits. */
#include "net.h"
#include "inputs.h"

void put(const char *text);

static NET_DECLARE_ARENA(arena);
static net_state state;
static float loss[1], inferred[NET_INFER_RESULT_ITEMS];

/* A function that needs no arena takes none. */
#if NET_TRAIN_ARENA_BYTES
#define TRAIN(x, y) net_train(&state, x, y, loss, &arena)
#else
#define TRAIN(x, y) net_train(&state, x, y, loss)
#endif
#if NET_INFER_ARENA_BYTES
#define INFER(x) net_infer(&state, x, inferred, &arena)
#else
#define INFER(x) net_infer(&state, x, inferred)
#endif

static void put_word(uint32_t word) {
    char text[10];
    for (int i = 0; i < 8; i++) text[i] = "0123456789abcdef"[word >> (28 - 4 * i) & 15];
    text[8] = '\n';
    text[9] = 0;
    put(text);
}

static void put_float(float value) {
    union { float value; uint32_t word; } bits;
    bits.value = value;
    put_word(bits.word);
}

/* Where the stack ends now; below it nothing is kept. */
static inline uintptr_t stack_end(void) {
    uintptr_t at;
#if defined(__x86_64__)
    __asm__ volatile("mov %%rsp, %0" : "=r"(at));
#elif defined(__riscv)
    __asm__ volatile("mv %0, sp" : "=r"(at));
#elif defined(__AVR__)
    __asm__ volatile("in %A0, 0x3d\nin %B0, 0x3e\nadiw %0, 1" : "=w"(at));
#else
    __asm__ volatile("mov %0, sp" : "=r"(at));
#endif
    return at;
}

/* A part of the stack is painted before a call; what is no longer painted was used. */
enum { PAINT = 0x5A };

__attribute__((noinline)) static uint32_t stack_of_a_step(void) {
    volatile unsigned char *const end = (volatile unsigned char *)stack_end();
    volatile unsigned char *lowest = end - PAINTED;
    while (lowest < end) *lowest++ = PAINT;
    TRAIN((const float *)inputs[0], (const LABEL *)labels[0]);
    for (lowest = end - PAINTED; lowest < end && *lowest == PAINT;) lowest++;
    return (uint32_t)(end - lowest);
}

static union { unsigned char bytes[NET_SELFTEST_BYTES]; double aligned; } trial;

int main(void) {
    if (net_selftest(&trial)) return 3;
    /* Byte by byte, and by a loop: an assignment may call memcpy, which is not there. */
    for (unsigned i = 0; i < sizeof state; i++)
        ((volatile unsigned char *)&state)[i] = ((const unsigned char *)&net_initial)[i];
    for (int step = 0; step < STEPS; step++) {
        const int at = step % BATCHES;
        if (TRAIN((const float *)inputs[at], (const LABEL *)labels[at])) return 1;
        put_float(loss[0]);
    }
    if (INFER((const float *)inputs[0])) return 2;
    for (int i = 0; i < NET_INFER_RESULT_ITEMS; i++) put_float(inferred[i]);
    put_word(stack_of_a_step());
    return 0;
}
