#!/bin/bash
# Makes an instance of the fleet a gateway: takes a free set of interfaces, prepares the machine, starts weir.
# Written by `weir deploy aws`. In here $ with braces is CloudFormation's, $ without is the shell's.
set -euo pipefail
exec > >(tee -a /var/log/weir-setup.log) 2>&1

export AWS_DEFAULT_REGION=${AWS::Region}
STACK=${AWS::StackName}
GROUP=${AWS::StackName}-gateways

TOKEN=$(curl -sf -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 21600' http://169.254.169.254/latest/api/token)
about() { curl -sf -H "X-aws-ec2-metadata-token: $TOKEN" "http://169.254.169.254/latest/meta-data/$1"; }
INSTANCE=$(about instance-id)
ZONE=$(about placement/availability-zone)
ADMIN_MAC=$(about mac)
ADMIN=$(about "network/interfaces/macs/$ADMIN_MAC/interface-id")

# Completes the launch: an instance that found no free set is replaced.
said=ABANDON
finish() {
  aws autoscaling complete-lifecycle-action --lifecycle-hook-name launched --auto-scaling-group-name "$GROUP" \
    --instance-id "$INSTANCE" --lifecycle-action-result "$said" || true
}
trap finish EXIT

# Interfaces are identified by their tags.
interfaces() { # filter …, then --query and what of them
  aws ec2 describe-network-interfaces --output text --filters "Name=tag:weir-stack,Values=$STACK" "$@"
}
interface() { # machine gateway role
  interfaces "Name=tag:weir-machine,Values=$1" "Name=tag:weir-gateway,Values=$2" "Name=tag:weir-role,Values=$3" \
    --query 'NetworkInterfaces[0].NetworkInterfaceId'
}
tag() { # interface key
  aws ec2 describe-network-interfaces --output text --network-interface-ids "$1" \
    --query "NetworkInterfaces[0].TagSet[?Key=='$2'].Value"
}
attach() { # interface index
  aws ec2 attach-network-interface --instance-id "$INSTANCE" --network-interface-id "$1" --device-index "$2"
}

# A set is free while its first interface is; attaching that is done by one instance or by none.
MACHINE=
for candidate in $(interfaces Name=status,Values=available "Name=availability-zone,Values=$ZONE" \
  Name=tag:weir-gateway,Values=0 Name=tag:weir-role,Values=access \
  --query "NetworkInterfaces[].TagSet[?Key=='weir-machine'].Value[]"); do
  if attach "$(interface "$candidate" 0 access)" 1; then
    MACHINE=$candidate
    break
  fi
done
[ -n "$MACHINE" ] || { echo "no set of interfaces is free in $ZONE"; exit 1; }

# The system does not configure them: their addresses are weir's.
device() { # interface
  local mac
  mac=$(aws ec2 describe-network-interfaces --output text --network-interface-ids "$1" \
    --query 'NetworkInterfaces[0].MacAddress')
  printf '[Match]\nMACAddress=%s\n[Link]\nUnmanaged=yes\n' "$mac" > "/etc/systemd/network/10-weir-$1.network"
  for _ in $(seq 60); do
    for path in /sys/class/net/*; do
      if [ "$(cat "$path/address")" = "$mac" ]; then basename "$path"; return; fi
    done
    sleep 1
  done
  return 1
}

# Huge pages before memory is fragmented; no interrupt balancing.
sysctl -qw vm.nr_hugepages=@HUGEPAGES@
systemctl disable --now irqbalance || true

ready() { # device, CPUs of its interrupts
  local n=0 irq cpus
  cpus=$(echo "$2" | wc -w)
  networkctl reload || true
  ip address flush dev "$1"
  ip link set "$1" mtu 1500 up
  ethtool -L "$1" combined @WORKERS@ || true
  for irq in $(ls "/sys/class/net/$1/device/msi_irqs"); do
    echo "$2" | cut -d' ' -f$((n % cpus + 1)) > "/proc/irq/$irq/smp_affinity_list" || true
    n=$((n + 1))
  done
}

# The usual hardened unit, and the differences here.
useradd --system --home-dir /var/lib/weir --shell /usr/sbin/nologin weir || true
mkdir -p /etc/systemd/system/weir@.service.d
cat > /etc/systemd/system/weir@.service <<'UNIT'
@UNIT@UNIT
cat > /etc/systemd/system/weir@.service.d/fleet.conf <<'FLEET'
[Service]
EnvironmentFile=/etc/weir/%i.env
ExecStart=
ExecStart=/usr/local/bin/weir run /etc/weir/%i.toml --pool-from-ordinal @ORDINALS@
FLEET
mkdir -p /etc/weir
cat > /etc/weir/gateway.template <<'GATEWAY'
@GATEWAY@GATEWAY

# CPUs of each gateway's workers and interrupts, gateway by gateway.
cpus() { # list gateway
  echo "$1" | tr '/' '\n' | sed -n "$(($2 + 1))p"
}
ADMIN_DEVICE=$(basename "$(dirname "$(grep -l "$ADMIN_MAC" /sys/class/net/*/address | head -1)")")
SCRAPED=
for gateway in $(seq 0 $((@GATEWAYS@ - 1))); do
  access=$(interface "$MACHINE" "$gateway" access)
  core=$(interface "$MACHINE" "$gateway" core)
  [ "$gateway" = 0 ] || attach "$access" $((2 * gateway + 1))
  attach "$core" $((2 * gateway + 2))
  access_device=$(device "$access")
  core_device=$(device "$core")
  ready "$access_device" "$(cpus '@INTERRUPT_CPUS@' "$gateway")"
  ready "$core_device" "$(cpus '@INTERRUPT_CPUS@' "$gateway")"
  n4=$(tag "$access" weir-n4)
  aws ec2 assign-private-ip-addresses --network-interface-id "$ADMIN" --private-ip-addresses "$n4" --allow-reassignment
  ip address add "$n4/32" dev "$ADMIN_DEVICE" || true
  sed -e "s|@ACCESS_IF@|$access_device|; s|@CORE_IF@|$core_device|" \
    -e "s|@ACCESS@|$(tag "$access" weir-first)|; s|@CORE@|$(tag "$core" weir-first)|" \
    -e "s|@ACCESS_ROUTER@|$(tag "$access" weir-router)|; s|@CORE_ROUTER@|$(tag "$core" weir-router)|" \
    -e "s|@N4@|$n4|; s|@CPUS@|[$(cpus '@WORKER_CPUS@' "$gateway" | tr ' ' ',')]|; s|@GATEWAY_NUMBER@|$gateway|g" \
    /etc/weir/gateway.template > "/etc/weir/$gateway.toml"
  echo "WEIR_ORDINAL=$((MACHINE * @GATEWAYS@ + gateway))" > "/etc/weir/$gateway.env"
  SCRAPED="$SCRAPED\"127.0.0.1:$((9464 + gateway))\","
  /usr/local/bin/weir run --check "/etc/weir/$gateway.toml"
  systemctl enable --now "weir@$gateway"
done

# The load goes to CloudWatch, where the scaling policy reads it.
mkdir -p /opt/weir
cat > /opt/weir/prometheus.yml <<SCRAPE
global: { scrape_interval: 15s, scrape_timeout: 5s }
scrape_configs:
  - job_name: weir
    static_configs:
      - targets: [$SCRAPED]
        labels: { AutoScalingGroupName: "$GROUP" }
SCRAPE
cat > /opt/weir/agent.json <<'AGENT'
{ "logs": { "force_flush_interval": 15, "metrics_collected": { "prometheus": {
    "log_group_name": "weir", "prometheus_config_path": "/opt/weir/prometheus.yml",
    "emf_processor": { "metric_namespace": "weir", "metric_declaration": [ {
      "source_labels": ["job"], "label_matcher": "^weir$", "dimensions": [["AutoScalingGroupName"]],
      "metric_selectors": ["^weir_load_ratio$", "^weir_sessions$", "^weir_ready$"] } ] } } } } }
AGENT
/opt/aws/amazon-cloudwatch-agent/bin/amazon-cloudwatch-agent-ctl -a fetch-config -m ec2 -s -c file:/opt/weir/agent.json

# Before termination it drains: no new sessions, and a bounded wait for existing ones.
cat > /opt/weir/leave <<'LEAVE'
#!/bin/bash
GROUP=$1 INSTANCE=$2
while sleep 5; do
  TOKEN=$(curl -sf -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' http://169.254.169.254/latest/api/token)
  state=$(curl -sf -H "X-aws-ec2-metadata-token: $TOKEN" \
    http://169.254.169.254/latest/meta-data/autoscaling/target-lifecycle-state)
  [ "$state" = Terminated ] || continue
  for socket in /run/weir/*.sock; do weir drain --wait @DRAIN@ --socket "$socket" & done
  wait
  aws autoscaling complete-lifecycle-action --lifecycle-hook-name leaving --auto-scaling-group-name "$GROUP" \
    --instance-id "$INSTANCE" --lifecycle-action-result CONTINUE
  exit
done
LEAVE
chmod +x /opt/weir/leave
systemd-run --unit weir-leave --property Restart=on-failure \
  --setenv "AWS_DEFAULT_REGION=$AWS_DEFAULT_REGION" /opt/weir/leave "$GROUP" "$INSTANCE"
said=CONTINUE
