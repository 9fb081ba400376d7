"""Writes as many MiB as asked that do not compress, the same each time: photographs and archives, as a disk sees them."""

import random
import sys

source = random.Random(0xC0AAC1E)
for _ in range(int(sys.argv[1])):
    sys.stdout.buffer.write(source.randbytes(1 << 20))
