#!/bin/bash
# Makes an instance of the fleet a gateway. Written by `weir deploy aws`. In here $ with braces is CloudFormation's, $
# without is the shell's. User data runs once; what must be there after each boot is a service that may run any number of times.
set -euo pipefail
mkdir -p /opt/weir /etc/weir
cat > /opt/weir/fleet <<'SETTINGS'
export AWS_DEFAULT_REGION=${AWS::Region}
STACK=${AWS::StackName}
GROUP=${AWS::StackName}-gateways
about() {
  local token
  token=$(curl -sf -X PUT -H 'X-aws-ec2-metadata-token-ttl-seconds: 60' http://169.254.169.254/latest/api/token)
  curl -sf -H "X-aws-ec2-metadata-token: $token" "http://169.254.169.254/latest/meta-data/$1"
}
SETTINGS
cat > /opt/weir/boot <<'BOOT'
#!/bin/bash
# Takes a free set of interfaces, or finds the one it has; prepares the machine; starts weir.
set -euo pipefail
. /opt/weir/fleet
INSTANCE=$(about instance-id)
ZONE=$(about placement/availability-zone)
ADMIN_MAC=$(about mac)
ADMIN=$(about "network/interfaces/macs/$ADMIN_MAC/interface-id")

# Completes the launch: an instance that could not become a gateway is replaced. After the launch neither is taken.
said=ABANDON
finish() {
  aws autoscaling complete-lifecycle-action --lifecycle-hook-name launched --auto-scaling-group-name "$GROUP" \
    --instance-id "$INSTANCE" --lifecycle-action-result "$said" || true
  [ "$said" = CONTINUE ] && result=SUCCESS || result=FAILURE
  aws cloudformation signal-resource --stack-name "$STACK" --logical-resource-id Gateways \
    --unique-id "$INSTANCE" --status "$result" || true
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
machines() { # filter …
  interfaces "$@" Name=tag:weir-gateway,Values=0 Name=tag:weir-role,Values=access \
    --query "NetworkInterfaces[].TagSet[?Key=='weir-machine'].Value[]"
}
tag() { # interface key
  aws ec2 describe-network-interfaces --output text --network-interface-ids "$1" \
    --query "NetworkInterfaces[0].TagSet[?Key=='$2'].Value"
}
attach() { # interface index
  local holder
  holder=$(aws ec2 describe-network-interfaces --output text --network-interface-ids "$1" \
    --query 'NetworkInterfaces[0].Attachment.InstanceId')
  [ "$holder" = "$INSTANCE" ] ||
    aws ec2 attach-network-interface --instance-id "$INSTANCE" --network-interface-id "$1" --device-index "$2"
}

# A set is free while its first interface is; attaching that is done by one instance or by none. One that leaves may hold
# its set until it has drained.
MACHINE=$(machines "Name=attachment.instance-id,Values=$INSTANCE" | cut -f1)
for _ in $(seq 0 15 $((@DRAIN@ + 300))); do
  [ -z "$MACHINE" ] || break
  for candidate in $(machines Name=status,Values=available "Name=availability-zone,Values=$ZONE"); do
    if attach "$(interface "$candidate" 0 access)" 1; then
      MACHINE=$candidate
      break 2
    fi
  done
  sleep 15
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

# CPUs of each gateway's workers and interrupts, gateway by gateway.
cpus() { # list gateway
  echo "$1" | tr '/' '\n' | sed -n "$(($2 + 1))p"
}
@LEDGER@ADMIN_DEVICE=$(basename "$(dirname "$(grep -l "$ADMIN_MAC" /sys/class/net/*/address | head -1)")")
SCRAPED=
for gateway in $(seq 0 $((@GATEWAYS@ - 1))); do
  access=$(interface "$MACHINE" "$gateway" access)
@ITS_OWN@  core=$(interface "$MACHINE" "$gateway" core)
  attach "$access" $((2 * gateway + 1))
  attach "$core" $((2 * gateway + 2))
  access_device=$(device "$access")
  core_device=$(device "$core")
@LINES@  metrics=127.0.0.1:$((9464 + gateway))
  n4=$(tag "$access" weir-n4)
  aws ec2 assign-private-ip-addresses --network-interface-id "$ADMIN" --private-ip-addresses "$n4" --allow-reassignment
  ip address replace "$n4/32" dev "$ADMIN_DEVICE"
  sed -e "s|@ACCESS_IF@|$access_device|; s|@CORE_IF@|$core_device|" \
    -e "s|@ACCESS@|$(tag "$access" weir-first)|; s|@CORE@|$(tag "$core" weir-first)|" \
    -e "s|@ACCESS_ROUTER@|$(tag "$access" weir-router)|; s|@CORE_ROUTER@|$(tag "$core" weir-router)|" \
    -e "s|@METRICS@|$metrics|; s|@HEALTH@|127.0.0.1:$((9480 + gateway))|" \
    -e "s|@N4@|$n4|; s|@CPUS@|[$(cpus '@WORKER_CPUS@' "$gateway" | tr ' ' ',')]|; s|@GATEWAY_NUMBER@|$gateway|g" \
    /etc/weir/gateway.template > "/etc/weir/$gateway.toml"
@SECRETS@  echo "@ORDINAL@=$((MACHINE * @GATEWAYS@ + gateway))" > "/etc/weir/$gateway.env"
  SCRAPED="$SCRAPED\"$metrics\","
  systemctl is-active --quiet "weir@$gateway" && continue
@READY_ACCESS@  ready "$core_device" "$(cpus '@INTERRUPT_CPUS@' "$gateway")"
  /usr/local/bin/weir run --check "/etc/weir/$gateway.toml"
  systemctl start "weir@$gateway"
done

# The load goes to CloudWatch, where the scaling policy reads it.
cat > /opt/weir/prometheus.yml <<SCRAPE
global: { scrape_interval: 15s, scrape_timeout: 5s }
scrape_configs:
  - job_name: weir
    static_configs:
      - targets: [$SCRAPED]
        labels: { AutoScalingGroupName: "$GROUP" }
SCRAPE
/opt/aws/amazon-cloudwatch-agent/bin/amazon-cloudwatch-agent-ctl -a fetch-config -m ec2 -s -c file:/opt/weir/agent.json
for file in /etc/weir/*.env; do
  curl -sf --retry 30 --retry-connrefused --retry-delay 2 "http://127.0.0.1:$((9480 + $(basename "$file" .env)))/healthz" > /dev/null
done
touch /opt/weir/launched
said=CONTINUE
BOOT
cat > /opt/weir/agent.json <<'AGENT'
{ "logs": { "force_flush_interval": 15, "metrics_collected": { "prometheus": {
    "log_group_name": "weir", "prometheus_config_path": "/opt/weir/prometheus.yml",
    "emf_processor": { "metric_namespace": "weir", "metric_declaration": [ {
      "source_labels": ["job"], "label_matcher": "^weir$", "dimensions": [["AutoScalingGroupName"]],
      "metric_selectors": ["^weir_load_ratio$", "^weir_sessions$", "^weir_ready$"] } ] } } } } }
AGENT

# Before termination it drains: no new sessions, and a bounded wait for existing ones. A gateway that does not answer
# /healthz for five minutes makes the group replace the instance.
cat > /opt/weir/watch <<'WATCH'
#!/bin/bash
. /opt/weir/fleet
INSTANCE=$(about instance-id)
failed=0
while sleep 5; do
  if [ "$(about autoscaling/target-lifecycle-state)" = Terminated ]; then
@DRAINED@    aws autoscaling complete-lifecycle-action --lifecycle-hook-name leaving --auto-scaling-group-name "$GROUP" \
      --instance-id "$INSTANCE" --lifecycle-action-result CONTINUE
    exit
  fi
  [ -e /opt/weir/launched ] || continue
  if [ "$failed" -ge 60 ]; then
    @UNHEALTHY@
    failed=0
  fi
  failed=$((failed + 1))
  for file in /etc/weir/*.env; do
    curl -sf -m 3 "http://127.0.0.1:$((9480 + $(basename "$file" .env)))/healthz" > /dev/null || continue 2
  done
  failed=0
done
WATCH
chmod +x /opt/weir/boot /opt/weir/watch

# The usual hardened unit, and the differences here.
useradd --system --home-dir /var/lib/weir --shell /usr/sbin/nologin weir || true
mkdir -p /etc/systemd/system/weir@.service.d
cat > /etc/systemd/system/weir@.service <<'UNIT'
@UNIT@UNIT
cat > /etc/systemd/system/weir@.service.d/fleet.conf <<'FLEET'
[Service]
EnvironmentFile=/etc/weir/%i.env
ExecStart=
ExecStart=/usr/local/bin/weir run /etc/weir/%i.toml @RUN@
FLEET
@TEMPLATE@service() { # name, lines of [Service]
  printf '[Unit]\nWants=network-online.target\nAfter=network-online.target\n[Service]\n%s\n[Install]\nWantedBy=multi-user.target\n' \
    "$2" > "/etc/systemd/system/$1.service"
}
service weir-boot 'Type=oneshot
RemainAfterExit=yes
ExecStart=/opt/weir/boot
TimeoutStartSec=2h
Restart=on-failure
RestartSec=30'
service weir-watch 'ExecStart=/opt/weir/watch
Restart=on-failure'
systemctl daemon-reload
systemctl enable --now weir-watch
systemctl enable --now weir-boot
