// The few calls of libipsec-mb that BPI+ needs, over plain types that Rust can name. Built against the library's header,
// so that its structures may change from version to version.
//
// IMB_GET_NEXT_BURST and IMB_FLUSH_BURST are not used: they ask the library how long its queue is, and 1.3 does not know
// when the queue wraps (it divides a negative distance as an unsigned number). Our caller counts, so jobs are taken from
// the queue here, and flushed one by one.

#include <intel-ipsec-mb.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if IMB_VERSION_NUM < IMB_VERSION(1, 3, 0) || IMB_VERSION_NUM >= IMB_VERSION(1, 4, 0)
#error "written for libipsec-mb 1.3: later versions want sessions set for bursts"
#endif

// In step with lanes.rs.
struct weir_key {
    alignas(64) uint8_t iv[16]; // with the eleven round keys of AES-128 behind it exactly three cache lines
    uint8_t enc[240];           // 15 round keys at most
    uint8_t dec[240];
    uint8_t rest[80]; // an odd number of cache lines: keys spread over all sets of the first-level cache
};
_Static_assert(sizeof(struct weir_key) == 9 * 64, "in step with lanes.rs");

struct weir_job {
    uint8_t *frame; // from the destination address
    const struct weir_key *key;
    uint32_t len;      // to the end of the CRC where one is to be added or checked, to the end of the frame elsewhere
    uint8_t clear;     // bytes that stay clear
    uint8_t crc;       // whether the CRC is done
    uint8_t key_bytes; // 16 or 32
    uint8_t place;     // the caller's
};

struct weir_lanes {
    IMB_MGR *mgr;
    IMB_ARCH arch;
    IMB_CIPHER_DIRECTION direction;
    IMB_JOB *burst[IMB_MAX_BURST_SIZE];
    uint32_t tags[IMB_MAX_JOBS]; // of every job of the queue: the CRC that the library calculated
};

struct weir_lanes *weir_lanes_new(int encrypt) {
    struct weir_lanes *lanes = calloc(1, sizeof *lanes);
    if (!lanes)
        return NULL;
    lanes->mgr = alloc_mb_mgr(0);
    if (!lanes->mgr) {
        free(lanes);
        return NULL;
    }
    init_mb_mgr_auto(lanes->mgr, &lanes->arch);
    lanes->direction = encrypt ? IMB_DIR_ENCRYPT : IMB_DIR_DECRYPT;
    // What all jobs have in common. Nobody else fills these, and the library leaves what it is given.
    for (uint32_t i = 0; i < IMB_MAX_JOBS; i++) {
        IMB_JOB *job = &lanes->mgr->jobs[i];
        job->cipher_mode = IMB_CIPHER_DOCSIS_SEC_BPI;
        job->cipher_direction = lanes->direction;
        job->chain_order = encrypt ? IMB_ORDER_HASH_CIPHER : IMB_ORDER_CIPHER_HASH;
        job->iv_len_in_bytes = 16;
        job->hash_start_src_offset_in_bytes = 0;
        job->auth_tag_output = (uint8_t *)&lanes->tags[i];
        job->auth_tag_output_len_in_bytes = 4;
    }
    return lanes;
}

void weir_lanes_free(struct weir_lanes *lanes) {
    free_mb_mgr(lanes->mgr);
    free(lanes);
}

// 0 when this machine has no AES instructions, else what the library chose.
int weir_lanes_arch(const struct weir_lanes *lanes) {
    switch (lanes->arch) {
    case IMB_ARCH_SSE: return 1;
    case IMB_ARCH_AVX: return 2;
    case IMB_ARCH_AVX2: return 3;
    case IMB_ARCH_AVX512: return 4;
    default: return 0;
    }
}

void weir_lanes_expand(struct weir_lanes *lanes, struct weir_key *into, const uint8_t *key, uint64_t key_bytes,
                       const uint8_t *iv) {
    memset(into, 0, sizeof *into);
    if (key_bytes == 16)
        IMB_AES_KEYEXP_128(lanes->mgr, key, into->enc, into->dec);
    else
        IMB_AES_KEYEXP_256(lanes->mgr, key, into->enc, into->dec);
    memcpy(into->iv, iv, sizeof into->iv);
}

static void results(IMB_JOB *const *jobs, uint32_t n, uint8_t *bad) {
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *crc = jobs[i]->user_data;
        bad[i] = jobs[i]->status != IMB_STATUS_COMPLETED || (crc && memcmp(crc, jobs[i]->user_data2, 4));
    }
}

// Submits at most IMB_MAX_BURST_SIZE jobs, for which there must be room, in the order named. The oldest jobs that are
// through leave: how many is returned, and bad[i] says of each whether its CRC is wrong.
uint32_t weir_lanes_submit(struct weir_lanes *lanes, const struct weir_job *jobs, const uint8_t *order, uint32_t n,
                           uint8_t *bad) {
    IMB_JOB **burst = lanes->burst;
    IMB_MGR *mgr = lanes->mgr;
    size_t next = (size_t)mgr->next_job / sizeof(IMB_JOB);
    const int decrypt = lanes->direction == IMB_DIR_DECRYPT;
    for (uint32_t i = 0; i < n; i++) {
        const struct weir_job *from = &jobs[order[i]];
        IMB_JOB *job = burst[i] = &mgr->jobs[(next + i) % IMB_MAX_JOBS];
        job->enc_keys = from->key->enc;
        job->dec_keys = from->key->dec;
        job->key_len_in_bytes = from->key_bytes;
        job->iv = from->key->iv;
        job->src = from->frame;
        job->dst = from->frame + from->clear;
        job->cipher_start_src_offset_in_bytes = from->clear;
        job->msg_len_to_cipher_in_bytes = from->len - from->clear;
        job->user_data = NULL;
        if (from->crc) {
            job->hash_alg = IMB_AUTH_DOCSIS_CRC32;
            job->msg_len_to_hash_in_bytes = from->len - 4;
            if (decrypt) {
                job->user_data = job->auth_tag_output;
                job->user_data2 = from->frame + from->len - 4;
            }
        } else {
            job->hash_alg = IMB_AUTH_NULL;
        }
    }
    uint32_t done = IMB_SUBMIT_BURST_NOCHECK(mgr, n, burst);
    results(burst, done, bad);
    return done;
}

// Finishes the oldest jobs in flight, at most n of them and at most IMB_MAX_BURST_SIZE.
uint32_t weir_lanes_flush(struct weir_lanes *lanes, uint32_t n, uint8_t *bad) {
    uint32_t done = 0;
    while (done < n && done < IMB_MAX_BURST_SIZE) {
        IMB_JOB *job = IMB_FLUSH_JOB(lanes->mgr);
        if (!job)
            break;
        lanes->burst[done++] = job;
    }
    results(lanes->burst, done, bad);
    return done;
}
