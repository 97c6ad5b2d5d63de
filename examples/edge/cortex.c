/* A Cortex-M that starts, switches its float unit on, and talks to the debugger (semihosting). */
#include <stdint.h>

int main(void);
void put(const char *text);
extern uint32_t stack_top, data_start, data_end, data_from, bss_start, bss_end;

static uintptr_t ask(uintptr_t what, const void *with) {
    register uintptr_t r0 __asm__("r0") = what;
    register const void *r1 __asm__("r1") = with;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}

void put(const char *text) { ask(0x04, text); }

void reset(void) {
#ifdef __ARM_FP
    *(volatile uint32_t *)0xE000ED88 |= 0xF << 20;
    __asm__ volatile("dsb\nisb");
#endif
    uint32_t *from = &data_from;
    for (uint32_t *to = &data_start; to < &data_end;) *to++ = *from++;
    for (uint32_t *to = &bss_start; to < &bss_end;) *to++ = 0;
    /* ADP_Stopped_ApplicationExit for 0; any other reason is an error to the emulator. */
    ask(0x18, (const void *)(main() == 0 ? 0x20026 : 0x20023));
    for (;;) {}
}

static void fault(void) {
    put("fault\n");
    ask(0x18, (const void *)0x20023);
    for (;;) {}
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    &stack_top, reset, fault, fault, fault, fault, fault, 0, 0, 0, 0, fault, fault, 0, fault, fault,
};
