#include <memreel/policy.h>

int main() { return MEMREEL_POLICY_VERSION == 0; }
