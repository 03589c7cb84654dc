//! Every way a packet can end without leaving by a port, by name.

macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($variant:ident $text:literal $sentence:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $(#[doc = $sentence] $variant,)* }

        impl $name {
            /// All of them, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];
            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The name in counters, tables and JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// What it means, in a sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$variant => $sentence,)* }
            }
        }
    };
}

named! {
    /// Why a packet was dropped. One flat list for all gateways: an operator learns it once.
    Drop {
        EtherType "ether_type" "The frame carries a protocol this port does not handle.",
        WrongVlan "wrong_vlan" "The frame's VLAN tag is not this port's.",
        Malformed "malformed" "A header does not fit the packet or contradicts itself.",
        HeaderChecksum "header_checksum" "The IPv4 header checksum is wrong.",
        NotForUs "not_for_us" "The packet is addressed to none of our addresses.",
        NotGtpu "not_gtpu" "A packet to one of our tunnel addresses that is not GTP-U.",
        OuterFragment "outer_fragment" "A fragment of a tunnel packet: the tunnel's MTU is set too large at the peer.",
        GtpuMalformed "gtpu_malformed" "The GTP-U header or its extension chain is broken.",
        GtpuUnsupported "gtpu_unsupported" "A GTP-U message type or mandatory extension header we do not support.",
        UnknownTeid "unknown_teid" "No session has this tunnel endpoint identifier.",
        UnknownSubscriber "unknown_subscriber" "No session has this destination address.",
        SpoofedSource "spoofed_source" "The subscriber sent from an address that is not its own.",
        GtpInGtp "gtp_in_gtp" "A subscriber's packet is addressed to our own tunnel endpoint.",
        NoPdr "no_pdr" "No packet detection rule of the session matches.",
        GateClosed "gate_closed" "The gate of a QER is closed in this direction.",
        FlowRate "flow_rate" "Over the flow's maximum bit rate.",
        QuotaExhausted "quota_exhausted" "The subscriber's volume quota is used up.",
        SessionRate "session_rate" "Over the session's aggregate maximum bit rate.",
        FarDrop "far_drop" "The forwarding action rule is DROP.",
        FarIncomplete "far_incomplete" "The forwarding action rule names a tunnel or peer that is not there (yet).",
        NoControlPath "no_control_path" "For the control plane, and no path leads there: no GTP-U socket at the N4 address, or a forwarding action rule without the control plane's tunnel.",
        ControlBusy "control_busy" "For the control plane, and more than its rate limit or the queue to control takes.",
        BufferFull "buffer_full" "The subscriber is idle and its buffer, or all buffers together, are full.",
        BufferDiscarded "buffer_discarded" "Was buffered for an idle subscriber whose session ended, dropped or timed out.",
        SessionGone "session_gone" "The session ended while the packet was in flight.",
        TtlExpired "ttl_expired" "The TTL or hop limit ran out here.",
        NoRoute "no_route" "No route to the destination.",
        TunnelLoop "tunnel_loop" "Forwarding action rules send the packet round in a circle, from tunnel to tunnel of ours.",
        NeighbourUnresolved "neighbour_unresolved" "The next hop does not answer ARP or neighbour discovery.",
        NeighbourQueueFull "neighbour_queue_full" "Too many packets wait for the next hop's hardware address.",
        TooBig "too_big" "Larger than the outgoing MTU and not to be fragmented; the sender was told.",
        NoHeadroom "no_headroom" "No room before the packet for the header to be added.",
        NoFrame "no_frame" "No free slot to hold what should have been sent.",
        Limited "limited" "More exceptions than we answer: the rate limit for messages to this worker's slow path.",
        OutQueueFull "out_queue_full" "More replies of our own than the queue to the port holds.",
        TxFull "tx_full" "The port could not take it: ring or socket buffer full.",
        HandOffFull "hand_off_full" "The ring to the subscriber's worker was full.",
        NoOwner "no_owner" "No worker owns this subscriber.",
        Panicked "panicked" "A stage failed on this burst; the burst was lost, the worker went on.",
        MartianSource "martian_source" "The source address is no host's, or of no host beyond its own link.",
        Multicast "multicast" "To a multicast or broadcast address of the network or the link: not forwarded.",
        NoService "no_service" "To an address of our own where nothing listens for it.",
        EcnIllegal "ecn_illegal" "Congestion was marked on the tunnel of a packet that is not ECN-capable.",
        UdpChecksum "udp_checksum" "The UDP checksum of a tunnel packet is wrong.",
        NatNoPort "nat_no_port" "The subscriber has all the public ports it may have, or its public address has none left.",
        NatNoMapping "nat_no_mapping" "From outside to a public address and port that no subscriber has.",
        NatTableFull "nat_table_full" "As many translations or translated subscribers as there may be.",
        NatLogFull "nat_log_full" "A block of public ports was not given out, as the log of blocks is behind.",
        NatProtocol "nat_protocol" "A protocol without ports, whose packets cannot share a public address.",
        NatFragment "nat_fragment" "A fragment that cannot be translated: its first one was not seen before it, or is too short.",
        AclDenied "acl_denied" "A rule of the network instance's access list denies it.",
        ReassemblyFull "reassembly_full" "A fragment found no room: the subscriber's or all memory for reassembly is taken.",
        ReassemblyTimeout "reassembly_timeout" "A fragment waited for the others of its packet in vain.",
        ReassemblyOverlap "reassembly_overlap" "Fragments of the packet overlap or contradict each other; all of them are dropped.",
        ReassemblyDuplicate "reassembly_duplicate" "A copy of a fragment that came before, or of one whose packet is complete.",
        ReassemblyTooBig "reassembly_too_big" "The packet put together would be larger than a packet or a frame can be.",
        NotL2tp "not_l2tp" "A packet to one of our pseudowire addresses that is not L2TPv3.",
        L2tpMalformed "l2tp_malformed" "The L2TPv3 header is broken, or the cookie is not the session's.",
        UnknownPseudowire "unknown_pseudowire" "No pseudowire of ours has this L2TPv3 session identifier.",
        UnknownRpd "unknown_rpd" "A packet of a pseudowire from another address than that of its Remote-PHY device.",
        PspMalformed "psp_malformed" "The table of segments of a PSP packet does not fit the packet.",
        UepiMalformed "uepi_malformed" "A data unit of an upstream burst is broken, too long, or begins or ends where none can.",
        SegmentLost "segment_lost" "Part of a burst or frame whose other parts were lost on the way.",
        SegmentLate "segment_late" "An upstream segment that came twice, or after the wait for it was over.",
        UnknownSid "unknown_sid" "No modem of the service group has this service identifier.",
        DocsisMalformed "docsis_malformed" "A DOCSIS header contradicts itself, or its frame is shorter or longer than one can be.",
        DocsisHcs "docsis_hcs" "The check sequence of a DOCSIS header or an upstream segment is wrong.",
        UnknownKey "unknown_key" "The frame is encrypted with a key we do not have, or not encrypted where it must be.",
        FrameCrc "frame_crc" "The CRC32 of the Ethernet frame in a DOCSIS frame is wrong.",
        FilterDenied "filter_denied" "A rule of the subscriber's filter groups denies it, or none permits it.",
        FlowQueueFull "flow_queue_full" "The service flow's queue, or the memory of all queues, is full.",
        FlowAqm "flow_aqm" "Active queue management kept the service flow's latency down.",
        FlowGone "flow_gone" "The service flow ended while the packet waited in it.",
        Redirected "redirected" "The forwarding action rule sends the subscriber to a web page, and this is no request for one.",
        PacketRate "packet_rate" "As many packets as a QER lets pass in a time have passed.",
        UnknownVlan "unknown_vlan" "No subscriber group has the frame's outer VLAN on this port, or not with that many tags.",
        UnknownLine "unknown_line" "No subscriber has the frame's port and VLANs, and hardware address where lines share VLANs.",
        SubscriberRate "subscriber_rate" "Over the rate of the subscriber's profile.",
        PortRingFull "port_ring_full" "Lost before it was received: the port's ring, or the kernel's queue before it, was full.",
        PortNoFrame "port_no_frame" "Lost before it was received: there was no free slot for it.",
        PortTooLong "port_too_long" "Lost before it was received: larger than a slot.",
        PortInvalid "port_invalid" "Lost before it was received: broken, or of a kind the port does not know.",
        PortRefused "port_refused" "Refused by the kernel or device for what it is, such as larger than the interface's MTU.",
        PortLost "port_lost" "Taken for sending by the kernel or device, and dropped there.",
    }
}

impl Drop {
    /// What ports lose before a worker receives it.
    pub const BEFORE_RECEIVED: [Self; 4] =
        [Self::PortRingFull, Self::PortNoFrame, Self::PortTooLong, Self::PortInvalid];
    /// What ports lose after a worker has sent it.
    pub const AFTER_SENT: [Self; 2] = [Self::PortRefused, Self::PortLost];
}

named! {
    /// Why a packet was taken off the pipeline to be consumed by the worker's own slow path: it is answered, turned
    /// into an event, or both. Counted like drops, as they do not come out.
    Punt {
        Arp "arp" "An ARP request or reply.",
        Neighbour "neighbour" "IPv6 neighbour or router discovery.",
        Ping "ping" "An ICMP echo request to one of our addresses.",
        IcmpOther "icmp_other" "Another ICMP message to one of our addresses.",
        GtpEcho "gtp_echo" "A GTP-U echo request or response.",
        GtpErrorIndication "gtp_error_indication" "A GTP-U peer does not know a TEID we send to.",
        GtpEndMarker "gtp_end_marker" "A GTP-U end marker: the last packet on an old path.",
        GtpExtensionNotice "gtp_extension_notice" "A GTP-U peer lists the extension headers it supports.",
        UnknownTeid "unknown_teid" "To be answered with an error indication.",
        TtlExpired "ttl_expired" "To be answered with ICMP time exceeded.",
        Oversize "oversize" "To be fragmented, or answered with packet too big.",
        Resolve "resolve" "Waits for its next hop's hardware address.",
        Buffer "buffer" "Waits for an idle subscriber to be paged.",
        RouterSolicitation "router_solicitation" "A subscriber requests its IPv6 prefix.",
        UnknownExtension "unknown_extension" "To be answered with the extension headers we support.",
        NoRoute "no_route" "To be answered with ICMP destination unreachable.",
        Hairpin "hairpin" "Translated on both sides: from one subscriber to the public address of another.",
        Reassemble "reassemble" "A fragment waits for the others of its packet.",
        ServiceFlow "service_flow" "Went into a service flow's queue, to be released by it.",
        Depi "depi" "Went into a DEPI packet, with or without others.",
        Uepi "uepi" "A piece of an upstream burst; the frames in it go on by themselves.",
        BandwidthRequest "bandwidth_request" "Modems' requests for bandwidth, counted for their grants.",
        L2tpControl "l2tp_control" "An L2TPv3 control message; sessions are configured here.",
        ControlPlane "control_plane" "To be sent to the control plane's function by GTP-U.",
        Dhcp4 "dhcp4" "A DHCPv4 message of an access line.",
        Dhcp6 "dhcp6" "A DHCPv6 message of an access line.",
        Pppoe "pppoe" "A PPPoE discovery or session frame of an access line.",
        GroupMembership "group_membership" "An IGMP or MLD message of an access line.",
        Routing "routing" "A message of a routing protocol to the gateway.",
        HybridAccess "hybrid_access" "A subscriber's packet among the core's in a burst of a hybrid port: it goes on in a burst of its own.",
        Redirect "redirect" "A subscriber's request is answered with the page it is sent to.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_unique_and_sentences_are_sentences() {
        fn check(all: impl Iterator<Item = (usize, &'static str, &'static str)>) {
            let mut seen = HashSet::new();
            for (number, (value, name, sentence)) in all.enumerate() {
                assert_eq!(number, value);
                assert!(seen.insert(name), "{name} twice");
                assert!(sentence.ends_with('.') && sentence.len() > 15, "{name}: {sentence}");
            }
        }
        check(Drop::ALL.iter().map(|d| (*d as usize, d.name(), d.sentence())));
        check(Punt::ALL.iter().map(|p| (*p as usize, p.name(), p.sentence())));
    }
}
