/* A program without C library under Linux: it writes to the standard output and ends. */
#include <stddef.h>

int main(void);
void put(const char *text);

static long call(long number, long a, long b, long c) {
#if defined(__aarch64__)
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b, x2 __asm__("x2") = c;
    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
#elif defined(__riscv)
    register long a7 __asm__("a7") = number, a0 __asm__("a0") = a;
    register long a1 __asm__("a1") = b, a2 __asm__("a2") = c;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2) : "memory");
    return a0;
#elif defined(__arm__)
    register long r7 __asm__("r7") = number, r0 __asm__("r0") = a;
    register long r1 __asm__("r1") = b, r2 __asm__("r2") = c;
    __asm__ volatile("svc 0" : "+r"(r0) : "r"(r7), "r"(r1), "r"(r2) : "memory");
    return r0;
#else
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
#endif
}

#if defined(__aarch64__) || defined(__riscv)
enum { WRITE = 64, EXIT = 93 };
#elif defined(__arm__)
enum { WRITE = 4, EXIT = 1 };
#else
enum { WRITE = 1, EXIT = 60 };
#endif

void put(const char *text) {
    size_t length = 0;
    while (text[length]) length++;
    call(WRITE, 1, (long)text, (long)length);
}

#if defined(__x86_64__)
__attribute__((force_align_arg_pointer))
#endif
void _start(void) {
#if defined(__riscv)
    __asm__ volatile(".option push\n.option norelax\nla gp, __global_pointer$\n.option pop");
#endif
    call(EXIT, main(), 0, 0);
    for (;;) {}
}
