// What finished vectors leave beside their results: nothing.
struct Left {};
DEVICE void leave_moments(const Operands&, Left, bool, int, int) {}
