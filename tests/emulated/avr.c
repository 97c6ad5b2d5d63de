/* An ATmega2560 that starts without a C library, and writes to its first serial port. */
#include <stdint.h>

int main(void);
void put(const char *text);

#define REGISTER(address) (*(volatile uint8_t *)(address))

/* The linker and the compiler's library fill in what lies between: they copy data and clear the rest. */
__attribute__((naked, used, section(".vectors"))) void vectors(void) { __asm__("jmp begin"); }

__attribute__((naked, used, section(".init2"))) void begin(void) {
    __asm__("clr r1\nldi r28, 0xff\nldi r29, 0x21\nout 0x3e, r29\nout 0x3d, r28");
}

/* An emulator takes sleep without interrupts for the end; what failed says so first. */
__attribute__((naked, used, section(".init9"))) void run(void) {
    REGISTER(0xC1) = 1 << 3; /* the port may send */
    if (main()) put("failed\n");
    REGISTER(0x53) = 1; /* sleep is meant */
    __asm__("cli\nsleep");
}

void put(const char *text) {
    for (; *text; text++) {
        while (!(REGISTER(0xC0) & 1 << 5)) {}
        REGISTER(0xC6) = (uint8_t)*text;
    }
}
