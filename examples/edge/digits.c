/* What runs on the device: it learns from what its own sensor saw, and hands its state over, as hexadecimal digits. */
#include "digits.h"
#include "seen.h"

void put(const char *text);

static DIGITS_DECLARE_ARENA(arena);
static digits_state state;

int main(void) {
    for (unsigned i = 0; i < sizeof state; i++)
        ((volatile unsigned char *)&state)[i] = ((const unsigned char *)&digits_initial)[i];
    for (int step = 0; step < STEPS; step++) {
        float pixels[64], loss[1];
        for (int i = 0; i < 64; i++) pixels[i] = (float)images[step % IMAGES][i] / 16.0f;
        const int32_t label[1] = {labels[step % IMAGES]};
        if (digits_learn(&state, pixels, label, loss, &arena) != DIGITS_OK) return 1;
    }
    for (unsigned i = 0; i < sizeof state; i++) {
        const unsigned byte = ((const unsigned char *)&state)[i];
        char text[3] = {"0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15], 0};
        put(text);
    }
    return 0;
}
