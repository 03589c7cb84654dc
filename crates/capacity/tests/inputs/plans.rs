//! Plans that together have every key there is.

/// A region's user plane with most of the keys there are.
pub const REGION: &str = r#"
gateway = "upf"
points = "extrapolate"
scaling = "points"
[demand]
subscribers = 100_000
rate = "0.45..0.55 Mbit/s"
stated_at = "mean"
busy_hour_over_mean = 1.5
peak_over_busy_hour = 1.3
growth_per_year = "0.15..0.25"
years = 2.0
headroom = 0.1
erlangs = 0.4
blocking = 0.01
down_up = "9:1"
frame_up = "128:60,1400:40"
frame_down = "128:20,1400:80"
day = [0.4, 0.3, 0.2, 0.2, 0.2, 0.2, 0.3, 0.5, 0.6, 0.6, 0.6, 0.6, 0.7, 0.7, 0.7, 0.7, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 0.8, 0.6]
[unit]
vcpus = 2
interfaces = 2
share_interfaces = false
queues = 2
memory = "2 GiB"
memory_per_subscriber = "200 KiB"
l3 = "1 MiB"
admin_interfaces = 1
reserved_vcpus = 1
[[point]]
machine = "here"
units = 2
each_packets = "0.3 Mpps"
directions = "each"
frame = "128 B"
subscribers = 1000.0
from = "measured"
clock = "3.0 GHz"
arch = "x86_64"
[[point]]
machine = "here"
clock = "3.0 GHz"
arch = "x86_64"
units = 2
each_packets = "0.2 Mpps"
directions = "each"
frame = "1024 B"
subscribers = 1000.0
from = "measured"
[[point]]
machine = "here"
clock = "3.0 GHz"
arch = "x86_64"
units = 2
each_packets = "0.25 Mpps"
directions = "each"
frame = "128 B"
subscribers = 64000.0
from = "measured"
[placement]
host = "shared"
sharing = [0.9]
bandwidth = "baseline"
cluster = true
internet = false
largest_flow = "6 Gbit/s"
[failure]
spares = 1
zones = 3
survive_zone = true
most_lost = 0.2
[price]
commitment = 0.37
committed = 0.6
dedicated_premium = 0.1
transfer = "0.02..0.05 $/GB"
transfer_of = "down"
transit = "0.02 $/GB"
transit_crossings = 1
own_transfer = "0.001..0.004 $/GB"
energy = "0.12..0.20 $/kWh"
[bounds]
budget = "4000 $/h"
power = "60 kW"
rack_units = 60
machines = 400
[autoscale]
target_load = 0.8
least_machines = 12
most_machines = 400
spares_at_night = 0
[candidates]
providers = ["aws", "on-premise"]
families = ["c5n", "c6in", "dual-6338n", "own", "equipped"]
machines = ["c5n.4xlarge", "c5n.9xlarge", "c6in.4xlarge", "dual-6338n", "own", "equipped"]
[region]
aws = "us-gov-west-1"
[[card]]
name = "fast"
ports = 2
port_speed = "100 Gbit/s"
bandwidth = "120 Gbit/s"
queues = 12
functions_per_port = 7
packets_per_port = "9 Mpps"
idle = "10 W"
power = "20 W"
price = "700 $"
[[server]]
name = "equipped"
sockets = 2
cores = 32
clock = "2.4 GHz"
memory = "128 GiB"
l3 = "48 MiB"
ports = 2
port_speed = "10 Gbit/s"
bandwidth = "15 Gbit/s"
packets_per_port = "6 Mpps"
cards = ["fast"]
rack_units = 1
idle = "200 W"
power = "500 W"
capex = "9000 $"
life = "5 years"
[[server]]
name = "own"
arch = "x86_64"
sockets = 2
cores = 32
threads_per_core = 2
clock = "2.4 GHz"
memory = "128 GiB"
l3 = "48 MiB"
ports = 4
port_speed = "25 Gbit/s"
functions_per_port = 8
queues = 16
packets = "12 Mpps"
rack_units = 2
idle = "200 W"
power = "500 W"
pue = 1.5
capex = "12000 $"
life = "5 years"
rack = "1200 $/year"
support = "900 $/year"
[site]
latency = "15 ms"
jitter = "2 ms"
deterministic = false
time_protocol = false
have_space = true
have_power = true
have_skill = true
availability = "99.95 %"
[[site.option]]
name = "hub"
machines = "cloud"
latency = "12 ms"
jitter = "1 ms"
deterministic = true
time_protocol = true
needs_space = true
needs_power = true
needs_skill = true
availability = "99.96 %"
provider = "aws"
families = ["c5n"]
types = ["c6in.4xlarge"]
price = 1.2
gateway = "vpc"
"#;

/// Hosts of one's own.
pub const HOSTS: &str = r#"
gateway = "cmts"
points = "interpolate"
[demand]
groups = 12
each = "2.5 Gbit/s"
[[point]]
machine = "c5n.4xlarge"
units = 1
each = "5.2 Gbit/s"
from = "published"
[placement]
host = "dedicated"
hosts = 3
[price]
dedicated_premium = 0.1
"#;

/// Groups that stay whole, measured in bits.
pub const GROUPS: &str = r#"
gateway = "cmts"
points = "interpolate"
scaling = "points"
[demand]
groups = 24
each = "2.5 Gbit/s"
frame = "800 B"
[unit]
share_interfaces = true
queues = 4
[[point]]
machine = "c5n.4xlarge"
units = 1
each = "5.2 Gbit/s"
from = "published"
[[point]]
machine = "c5n.4xlarge"
units = 4
each = "3.67 Gbit/s"
from = "published"
[placement]
host = "shared"
"#;

/// Markets and densities, with stated costs.
pub const MARKETS: &str = r#"
gateway = "upf"
points = "extrapolate"
[demand]
packets_are = "each"
frame = "128 B"
[[demand.market]]
name = "things"
packets = "1 pps"
share = 0.5
[[demand.market]]
name = "phones"
packets = "20 pps"
share = 0.5
[[demand.density]]
name = "city"
devices = 2000
areas = 250
[[cost]]
machine = "here"
cores = 2
trx = "1554 ns"
tc = "259 ns"
ttx = "1594 ns"
other = "288 ns"
frame = "128 B"
clock = "2.2 GHz"
arch = "x86_64"
"#;

/// Packets of each subscriber.
pub const PACKETS: &str = "gateway = 'upf'\n[demand]\nsubscribers = 250_000\npackets = '10 pps'\nframe = '128 B'\n\
                       [[point]]\nmachine = 'c5n.2xlarge'\neach_packets = '0.4 Mpps'\nframe = '128 B'\nfrom = 'published'\n\
                       [price.path.direct_connect]\nspeed = '100 Gbit/s'";

/// Money: the path of the traffic, and years.
pub const MONEY: &str = r#"
gateway = "upf"
[demand]
subscribers = 10_000
rate = "1 Mbit/s"
frame = "1000 B"
down_up = "9:1"
day = [0.5, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
[[point]]
machine = "c5n.2xlarge"
each = "2.5 Gbit/s"
from = "measured"
[[point]]
machine = "own"
each = "5 Gbit/s"
from = "measured"
[[server]]
name = "own"
sockets = 1
cores = 16
ports = 4
port_speed = "25 Gbit/s"
functions_per_port = 8
queues = 16
packets = "12 Mpps"
idle = "100 W"
power = "300 W"
pue = 2.0
capex = "10000 $"
life = "2 years"
rack = "1000 $/year"
support = "500 $/year"
[failure]
zones = 2
[price]
energy = "0.1 $/kWh"
own_transfer = "0.001 $/GB"
[price.path.nat]
gateways = 2
share = 0.1
hour = "0.045 $/h"
gb = "0.045 $/GB"
[price.path.cross_zone]
share = 0.5
gb = "0.01 $/GB"
[price.path.transit]
attachments = 2
crossings = 1
hour = "0.05 $/h"
gb = "0.02 $/GB"
[price.path.direct_connect]
ports = 3
speed = "10 Gbit/s"
of = "down"
share = 0.3
hour = "2.25 $/h"
gb = "0.02 $/GB"
[price.path.internet]
of = "up"
share = 0.3
[[price.path.internet.tier]]
from_gb = 0.0
gb = "0.09 $/GB"
[[price.path.internet.tier]]
from_gb = 10240.0
gb = "0.085 $/GB"
[years]
count = 3
subscriber_growth = 0.05
traffic_growth = 0.2
own_price_decline = 0.05
cloud_price_decline = 0.03
discount_rate = 0.08
"#;

/// What leaves a cloud through prices of its own.
pub const TRANSFER: &str = r#"
gateway = "upf"
[demand]
subscribers = 10_000
rate = "0.9..1.1 Mbit/s"
stated_at = "busy-hour"
growth_per_year = "0.15..0.25"
years = 2.0
frame = "1000 B"
[[point]]
machine = "c5n.2xlarge"
each = "2.5 Gbit/s"
from = "measured"
[price]
transfer = "0.02..0.05 $/GB"
transit = "0.02 $/GB"
transit_crossings = 1
"#;

/// A fleet at its bounds: one machine more, or less, counts.
pub const FLEET: &str = r#"
gateway = "upf"
[demand]
subscribers = 200_000
packets = "10 pps"
frame = "128 B"
day = [0.1, 0.1, 0.1, 0.1, 0.2, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.7, 0.5, 0.3, 0.2]
[[point]]
machine = "c5n.2xlarge"
each_packets = "0.4 Mpps"
frame = "128 B"
from = "published"
[failure]
spares = 1
[bounds]
machines = 6
[autoscale]
most_machines = 6
spares_at_night = 0
[candidates]
providers = ["aws"]
families = ["c5n"]
"#;

/// A place that wants something of its sites.
pub const SITE: &str = r#"
gateway = "upf"
[demand]
subscribers = 10_000
packets = "10 pps"
frame = "128 B"
[[point]]
machine = "c5n.2xlarge"
each_packets = "0.4 Mpps"
frame = "128 B"
from = "published"
[site]
deterministic = true
time_protocol = true
have_space = false
have_power = false
have_skill = false
[[site.option]]
name = "hub"
machines = "cloud"
deterministic = true
time_protocol = true
needs_space = false
needs_power = false
needs_skill = false
"#;

/// All of them.
pub const ALL: [&str; 9] = [REGION, HOSTS, GROUPS, MARKETS, PACKETS, MONEY, TRANSFER, FLEET, SITE];
