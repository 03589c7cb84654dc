// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
// Internet checksums (RFC 1071) over what is longer than a header. Sums are of words as they lie in the packet.
#ifndef WEIR_SUM_H
#define WEIR_SUM_H
#include "path.h"

#define SUM_CHUNK 64
#define MOST_SUMMED 4032    /* bytes: no packet in one page is longer */

static __always_inline __u16 fold64(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16 & 0xffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

// The sum of so many bytes at `at`, a constant and a multiple of 4, which are in the packet.
static __always_inline __u64 sum_words(const void *at, const int bytes)
{
	const __u32 *words = at;
	__u64 even = 0, odd = 0;

#pragma unroll
	for (int n = 0; n < bytes / 4; n += 2) {
		even += words[n];
		if (n + 1 < bytes / 4)
			odd += words[n + 1];
	}
	return even + odd;
}

// The sum of the packet from `at` on to its end, `len` bytes, MOST_SUMMED at most. What is left behind the last whole chunk is
// summed first: so the verifier follows it once, and not behind each number of chunks.
static __always_inline __u64 sum_to_end(const void *at, const void *end, __u32 len)
{
	__u64 whole = len & 0xfc0, sum = 0;
	const void *rest = at + whole;

	// The compiler is kept from working out one end from the other.
	asm volatile("" : "+r"(rest));
#pragma unroll
	for (int n = 0; n < SUM_CHUNK / 4 - 1; n++) {
		if (rest + 4 > end)
			break;
		sum += *(const __u32 *)rest;
		rest += 4;
	}
	if (rest + 2 <= end) {
		sum += *(const __u16 *)rest;
		rest += 2;
	}
	if (rest + 1 <= end)
		sum += *(const __u8 *)rest;
#pragma nounroll
	for (int n = 0; n < MOST_SUMMED / SUM_CHUNK; n++) {
		if (at + SUM_CHUNK > end)
			break;
		sum += sum_words(at, SUM_CHUNK);
		at += SUM_CHUNK;
	}
	return sum;
}

// What is to stand as UDP's checksum, of a sum with everything in it: 0 says that there is none (RFC 768).
static __always_inline __u16 finish_udp(__u64 sum)
{
	__u16 check = ~fold64(sum);

	return check ? check : 0xffff;
}

#endif
