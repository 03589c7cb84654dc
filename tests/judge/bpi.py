#!/usr/bin/env python3
"""BPI+ a second time, from its description, on the cipher and zlib's CRC32 of others.

    bpi.py read frames.txt      each line: key iv offset clear encrypted; all but the offset hexadecimal
    bpi.py write seed cipher    prints such lines, a random frame of every length from 14 to 2000, under 100 keys

The cipher, aes128, aes256 or des56, shows in a key's length. DES is Triple DES under one key three times. `offset` is where the Ethernet frame begins; `clear` has no CRC, `encrypted` has. Exits with 1 at the first line of a file
that is not what it should be.
"""

import random
import sys
import zlib

from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

CLEAR = 12
# Bytes of a key and of a block.
CIPHERS = {"aes128": (16, 16), "aes256": (32, 16), "des56": (8, 8)}


def cipher(key):
    return TripleDES(key * 3) if len(key) == 8 else algorithms.AES(key)


def block(key, data):
    ecb = Cipher(cipher(key), modes.ECB()).encryptor()
    return ecb.update(data) + ecb.finalize()


def residual(key, before, rest):
    return bytes(a ^ b for a, b in zip(rest, block(key, before)))


def encrypt(key, iv, body):
    size = len(iv)
    whole = len(body) // size * size
    cbc = Cipher(cipher(key), modes.CBC(iv)).encryptor()
    out = cbc.update(body[:whole]) + cbc.finalize()
    return out + residual(key, out[-size:] or iv, body[whole:])


def decrypt(key, iv, body):
    size = len(iv)
    whole = len(body) // size * size
    cbc = Cipher(cipher(key), modes.CBC(iv)).decryptor()
    out = cbc.update(body[:whole]) + cbc.finalize()
    return out + residual(key, body[whole - size:whole] if whole else iv, body[whole:])


def crc(frame):
    return zlib.crc32(frame).to_bytes(4, "little")


def read(path):
    lines = 0
    with open(path) as file:
        for lines, line in enumerate(file, 1):
            key, iv, offset, clear, encrypted = line.split()
            key, iv, clear, encrypted = map(bytes.fromhex, (key, iv, clear, encrypted))
            body = int(offset) + CLEAR
            opened = encrypted[:body] + decrypt(key, iv, encrypted[body:])
            if opened[:-4] != clear or opened[-4:] != crc(clear[int(offset):]):
                sys.exit(f"line {lines}, {len(clear)} bytes: {opened.hex()}")
    print(lines)


def write(seed, name):
    rng = random.Random(seed)
    keys = [tuple(rng.randbytes(size) for size in CIPHERS[name]) for _ in range(100)]
    for length in range(14, 2001):
        key, iv = rng.choice(keys)
        offset = rng.randrange(0, 60)
        clear = rng.randbytes(offset + length)
        whole = clear + crc(clear[offset:])
        encrypted = whole[:offset + CLEAR] + encrypt(key, iv, whole[offset + CLEAR:])
        print(key.hex(), iv.hex(), offset, clear.hex(), encrypted.hex())


if __name__ == "__main__":
    {"read": read, "write": lambda seed, name: write(int(seed), name)}[sys.argv[1]](*sys.argv[2:])
