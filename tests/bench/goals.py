"""Goals of benchmark lines: functions of a result."""

MIB = 1 << 20


def times(factor):
    return lambda result: result.other.median / result.ours.median >= factor


def within(factor, against):
    return lambda result: result.ours.median <= factor * against(result)


def no_larger(result):
    return result.ours.size <= result.other.size


def both(one, other):
    return lambda result: one(result) and other(result)


def small(result):
    return result.ours.rss <= 64 * MIB
