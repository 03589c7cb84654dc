//! Whether packets arrive: flows of a fleet walked through the routes of a template or a module, from network to network.
//!
//! Both are read into one graph: subnets with the routes of their tables, interfaces, transit gateways with the routes of
//! theirs, ways to the premises and to the internet, and what security groups admit.

mod flows;
mod graph;

use crate::finding::Finding;
use crate::fleet::Fleet;
use crate::node::Node;

use flows::flows;
use graph::Graph;

/// Flows of a fleet that do not arrive where they are meant to.
pub fn reach(fleet: &Fleet, document: &Node) -> Vec<Finding> {
    let graph = Graph::of(document, fleet);
    let mut found: Vec<Finding> = Vec::new();
    for flow in flows(fleet) {
        let Err(why) = graph.walk(&flow) else { continue };
        let what = format!("{} does not arrive: {why}", flow.name);
        // Many gateways fail alike.
        if !found.iter().any(|other| other.what == what) {
            found.push(Finding::at("Resources", what, "a route, association or rule on its way"));
        }
    }
    found
}
