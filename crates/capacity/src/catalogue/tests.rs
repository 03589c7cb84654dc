use super::*;
use crate::quantity::PacketRate;
use crate::question::Gateway;

fn named(name: &str) -> Machine {
    catalogue().into_iter().find(|machine| machine.name == name).expect("in the catalogue")
}

fn read(tables: &[(&str, &str)]) -> Result<Catalogue, TableError> {
    Catalogue::read(&|file| {
        let found = tables.iter().find(|(name, _)| *name == file);
        Ok(found.map(|(name, text)| (format!("own/{name}"), (*text).to_owned())))
    })
}

/// What is wrong with tables over those that come with weir.
fn wrong(file: &str, text: &str) -> String {
    let mut all = Catalogue::built_in().clone();
    let over = match read(&[(file, text)]) {
        Ok(over) => over,
        Err(error) => return error.to_string(),
    };
    all.merge(over);
    all.check(["own".to_owned()].iter().map(String::as_str)).unwrap_err().to_string()
}

#[test]
fn all_of_it_is_there() {
    let all = catalogue();
    let of = |provider: &str| all.iter().filter(|machine| machine.provider == provider).count();
    assert_eq!((of("aws"), of("azure"), of("gcp")), (266, 33, 25));
    Catalogue::built_in().check(std::iter::empty()).unwrap();
}

#[test]
fn a_type_as_the_table_has_it() {
    let it = named("c5n.4xlarge");
    assert_eq!((it.vcpus, it.interfaces, it.queues, it.whole_host), (Some(16), Some(8), Some(16), false));
    assert_eq!((it.baseline, it.burst), (Some(BitRate(15e9)), Some(BitRate(25e9))));
    let price = it.price.unwrap();
    assert_eq!((price.value, price.from), (Hourly(0.864), Provenance::Published));
    assert!(price.source.contains("2026-07-20"));
    assert!(named("c5n.18xlarge").whole_host && named("c5n.metal").whole_host);
}

#[test]
fn blank_is_unknown() {
    let azure = named("Standard_D8_v5");
    assert_eq!((azure.packets, azure.queues, azure.baseline), (None, None, None));
    assert_eq!(named("c2-* (series)").interfaces, None);
    assert_eq!(named("c5n.2xlarge").packets, None);
}

#[test]
fn types_of_azure_and_gcp_are_complete_enough_to_choose() {
    for machine in catalogue().iter().filter(|m| m.provider != "aws" && m.vcpus.is_some()) {
        let name = &machine.name;
        assert!(machine.arch.as_deref() == Some("x86_64") && machine.interfaces.is_some(), "{name}");
        assert!(machine.burst.is_some() && machine.price.is_some(), "{name}");
    }
}

#[test]
fn observers_who_count_differently_make_a_range() {
    let packets = named("c5n.4xlarge").packets.unwrap();
    // 2.5 Mpps of unstated counting may be 1.25 forwarded; somebody forwarded 3.
    assert_eq!((packets.low, packets.value, packets.high), (PacketRate(1.25e6), PacketRate(3e6), PacketRate(3e6)));
    assert_eq!(named("m5.metal").packets.unwrap().value, PacketRate(1.1e6));
    assert_eq!(named("c7gn.xlarge").packets.unwrap().value, PacketRate(2.5e6), "received only: cautious");
    assert_eq!(named("c5n.4xlarge").packets_per_interface.unwrap().value, PacketRate(4e6));
}

#[test]
fn a_region_has_its_prices() {
    let of = |region: &[(&str, &str)], name: &str| {
        let regions = region.iter().map(|(provider, region)| ((*provider).to_owned(), (*region).to_owned())).collect();
        let machines = Catalogue::built_in().machines(&regions);
        machines.into_iter().find(|machine| machine.name == name).unwrap().price.unwrap()
    };
    let azure = |region: &str| of(&[("azure", region)], "Standard_D8s_v6");
    assert_eq!(azure("eastus"), of(&[], "Standard_D8s_v6"));
    let west = azure("westeurope");
    assert!(west.from == Provenance::Published && west.value > azure("eastus").value, "{west:?}");
    assert!(west.source.starts_with("on demand, westeurope, 2026-"), "{}", west.source);
}

#[test]
fn the_price_of_another_region_is_a_range_and_says_so() {
    let regions = [("aws".to_owned(), "eu-west-1".to_owned())].into();
    let machines = Catalogue::built_in().machines(&regions);
    let price = machines.iter().find(|m| m.name == "c5n.4xlarge").unwrap().price.clone().unwrap();
    assert_eq!((price.from, price.low), (Provenance::Assumed, Hourly(0.864 * 1.04)));
    assert!(price.low < price.value && price.value < price.high);
    assert!(price.source.contains("us-east-1") && price.source.contains("no price of eu-west-1"), "{}", price.source);
}

#[test]
fn rows_of_the_same_key_are_replaced() {
    let prices =
        "machine\tregion\tkind\tdate\tusd_per_hour\tsource\nc5n.4xlarge\tus-east-1\tinstance\t2026-09-01\t0.5\tours\n";
    let machines =
        "machine\tprovider\tfamily\tvcpus\tsource\nc5n.4xlarge\taws\tc5n\t20\tours\nfast.1\tother\tfast\t8\tours\n";
    let sources = "source\ttitle\treference\nours\tAn offer\tcontract 7\n";
    let mut all = Catalogue::built_in().clone();
    let over = read(&[(PriceRow::FILE, prices), (MachineRow::FILE, machines), (SourceRow::FILE, sources)]).unwrap();
    all.merge(over);
    all.check(std::iter::empty()).unwrap();
    let machines = all.machines(&Regions::new());
    let of = |name: &str| machines.iter().find(|machine| machine.name == name).unwrap();
    let mine = of("c5n.4xlarge");
    assert_eq!((mine.vcpus, mine.interfaces), (Some(20), None), "the whole row is replaced");
    assert_eq!(mine.price.as_ref().unwrap().value, Hourly(0.5), "the newest day counts");
    assert_eq!((of("fast.1").family.as_str(), of("fast.1").price.is_none()), ("other/fast", true));
    assert_eq!(machines.len(), catalogue().len() + 1);
}

#[test]
fn what_rows_name_is_there() {
    let price = |row: &str| wrong("prices.tsv", &format!("machine\tregion\tkind\tdate\tusd_per_hour\tsource\n{row}\n"));
    let error = price("c5n.3xlarge\teu-west-1\tinstance\t2026-09-01\t0.5\tkarpenter-aws");
    assert!(
        error.starts_with("own/prices.tsv:2: machine: \"c5n.3xlarge\" is not in machines.tsv; there is c5n."),
        "{error}"
    );
    let error = price("c5n.4xlarge\teu-west-1\tinstance\t2026-09-01\t0.5\tkarpenter");
    assert!(error.contains("2: source: \"karpenter\" is not in sources.tsv; there is karpenter-aws"), "{error}");
    let error = price("c5n.4xlarge\teu-west-1\tinstance\tyesterday\t0.5\tkarpenter-aws");
    assert!(error.contains("2:4: date: \"yesterday\" is invalid; a day such as 2026-07-20"), "{error}");
    let error = price("aws/c9\teu-west-1\thost\t2026-09-01\t0.5\tkarpenter-aws");
    assert!(error.contains("there is no family \"aws/c9\""), "{error}");
    let measurement = |row: &str| {
        wrong(
            "measurements.tsv",
            &format!("machine\tgateway\tcounting\tscope\tunits\tmpps\tlow_mpps\trole\tsource\n{row}\n"),
        )
    };
    let error = measurement("own\tupf\tforwarded\tinstance\t\t1.5\t\tpoint\taws-100g");
    assert!(error.starts_with("own/measurements.tsv:2: units: how many units carried it?; at least 1"), "{error}");
    let error = measurement("own\tupf\tforwarded\tinstance\t2\t1.5\t1.6\tpoint\taws-100g");
    assert!(error.contains("low_mpps: 1.6 to 1.5 without 1.5"), "{error}");
    let error = measurement("here\t\tforwarded\tinstance\t\t1.5\t\tlimit\taws-100g");
    assert!(error.contains("machine: \"here\" is not in machines.tsv"), "{error}");
}

#[test]
fn queues_bound_their_interface() {
    let row = "machine\tcounting\tscope\tmpps\trole\tsource\nc5.4xlarge\teach\tqueue\t0.5\tlimit\taws-100g\n";
    let over = read(&[("measurements.tsv", row)]).unwrap();
    let mut machines = catalogue();
    over.measured(&mut machines);
    let it = machines.iter().find(|machine| machine.name == "c5.4xlarge").unwrap();
    assert_eq!((it.queues, it.packets_per_interface.as_ref().unwrap().value), (Some(8), PacketRate(8e6)));
}

#[test]
fn what_a_gateway_carried_is_a_point() {
    let row = "machine\tgateway\tcounting\tscope\tunits\tframe_bytes\tsubscribers\tmpps\tclock_ghz\tarch\trole\tsource\n\
               here\tupf\tforwarded\tinstance\t2\t128\t500\t3.0\t2.4\tx86_64\tpoint\taws-100g\n";
    let over = read(&[("measurements.tsv", row)]).unwrap();
    assert!(over.points(Gateway::Bng).is_empty());
    let point = over.points(Gateway::Upf).remove(0);
    assert_eq!((point.units, point.each_packets.unwrap().value), (2, PacketRate(1.5e6)));
    assert_eq!((point.clock.unwrap().value, point.from), (Clock(2.4e9), Provenance::Measured));
}

#[test]
fn written_tables_are_read_again() {
    let built_in = Catalogue::built_in();
    let files = built_in.files();
    let again: Catalogue = Catalogue::read(&|file| {
        let found = files.iter().find(|(name, _)| *name == file).unwrap();
        Ok::<_, TableError>(Some((file.to_owned(), found.1.clone())))
    })
    .unwrap();
    assert_eq!(again.rows(), built_in.rows());
    for (name, text) in &files {
        assert_eq!(
            text.lines().next().unwrap().matches('\t').count(),
            text.lines().last().unwrap().matches('\t').count(),
            "{name}"
        );
    }
}
