// An access switch for accel-ppp: each line's two VLAN tags (outer 100, inner from 2001 on) against an interface of its own,
// whose number is 1000 and the line's; 999 is the trunk.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>

#define SEC(name) __attribute__((section(name), used))
#define htons(word) __builtin_bswap16(word)

static long (*vlan_pop)(struct __sk_buff *) = (void *)BPF_FUNC_skb_vlan_pop;
static long (*vlan_push)(struct __sk_buff *, __u16, __u16) = (void *)BPF_FUNC_skb_vlan_push;
static long (*redirect)(__u32, __u64) = (void *)BPF_FUNC_redirect;
static long (*load_bytes)(const struct __sk_buff *, __u32, void *, __u32) = (void *)BPF_FUNC_skb_load_bytes;

enum { TRUNK = 999, FIRST_LINE = 1000, S_VLAN = 100, FIRST_C_VLAN = 2001 };

SEC("trunk") int from_trunk(struct __sk_buff *skb)
{
	__u16 inner[2];

	// The kernel has taken the outer tag out of the frame.
	if (!skb->vlan_present || load_bytes(skb, 12, inner, sizeof(inner)) || inner[0] != htons(0x8100))
		return TC_ACT_SHOT;
	__u32 c_vlan = htons(inner[1]) & 0xfff;
	if (c_vlan < FIRST_C_VLAN || vlan_pop(skb) || vlan_pop(skb))
		return TC_ACT_SHOT;
	return redirect(FIRST_LINE + c_vlan - FIRST_C_VLAN, 0);
}

SEC("line") int from_line(struct __sk_buff *skb)
{
	__u32 c_vlan = skb->ifindex - FIRST_LINE + FIRST_C_VLAN;

	if (vlan_push(skb, htons(0x8100), c_vlan) || vlan_push(skb, htons(0x88a8), S_VLAN))
		return TC_ACT_SHOT;
	return redirect(TRUNK, 0);
}

char _license[] SEC("license") = "GPL";
