//! `spec.strategy.canary.trafficRouting`: who sends which share of the requests where.

use crate::wire::wire_struct;
use serde_json::Value;
use std::collections::BTreeMap;

wire_struct! {
    /// Several may be given; all of them are kept in step.
    TrafficRouting {
        omit {
            istio: Option<Istio>,
            nginx: Option<Nginx>,
            alb: Option<Alb>,
            smi: Option<Smi>,
            ambassador: Option<Ambassador>,
            app_mesh: Option<AppMesh>,
            traefik: Option<Traefik>,
            apisix: Option<Apisix>,
            plugins: BTreeMap<String, Value>,
            managed_routes: Vec<ManagedRoute>,
            /// What a weight is a part of; 100, when nothing is said.
            max_traffic_weight: Option<i64>,
        }
    }
}

wire_struct! {
    /// A route that steps may write.
    ManagedRoute { keep { name: String, } }
}

wire_struct! {
    /// One VirtualService or several, and a DestinationRule where versions are subsets.
    Istio {
        omit {
            virtual_service: Option<IstioVirtualService>,
            virtual_services: Vec<IstioVirtualService>,
            destination_rule: Option<IstioDestinationRule>,
        }
    }
}

wire_struct! {
    /// A VirtualService and the routes in it that are ours.
    IstioVirtualService {
        keep { name: String, }
        omit { routes: Vec<String>, tls_routes: Vec<IstioTlsRoute>, tcp_routes: Vec<IstioTcpRoute>, }
    }
}

wire_struct! {
    /// A route of TLS by its port and names.
    IstioTlsRoute { omit { port: i64, sni_hosts: Vec<String>, } }
}

wire_struct! {
    /// A route of TCP by its port.
    IstioTcpRoute { omit { port: i64, } }
}

wire_struct! {
    /// The subsets of a DestinationRule.
    IstioDestinationRule {
        keep { name: String, canary_subset_name: String, stable_subset_name: String, }
        omit { additional_subset_names: Vec<String>, }
    }
}

wire_struct! {
    /// A second Ingress beside the stable one.
    Nginx {
        omit {
            stable_ingress: String,
            stable_ingresses: Vec<String>,
            annotation_prefix: String,
            additional_ingress_annotations: BTreeMap<String, String>,
            canary_ingress_annotations: BTreeMap<String, String>,
        }
    }
}

wire_struct! {
    /// Annotations of an Ingress of AWS' load balancer.
    Alb {
        omit {
            ingress: String,
            ingresses: Vec<String>,
            service_port: i64,
            root_service: String,
            annotation_prefix: String,
            stickiness_config: Option<AlbStickiness>,
        }
    }
}

wire_struct! {
    /// Whether a client stays with the version it met.
    AlbStickiness { omit { enabled: bool, duration_seconds: i64, } }
}

wire_struct! {
    /// A TrafficSplit.
    Smi { omit { root_service: String, traffic_split_name: String, } }
}

wire_struct! {
    /// Mappings that are cloned for the canary.
    Ambassador { keep { mappings: Vec<String>, } }
}

wire_struct! {
    /// A VirtualService and the nodes behind it.
    AppMesh {
        omit { virtual_service: Option<AppMeshVirtualService>, virtual_node_group: Option<AppMeshNodes>, }
    }
}

wire_struct! {
    /// The VirtualService and its routes.
    AppMeshVirtualService { keep { name: String, } omit { routes: Vec<String>, } }
}

wire_struct! {
    /// The nodes of both versions.
    AppMeshNodes {
        omit { canary_virtual_node_ref: Option<AppMeshNode>, stable_virtual_node_ref: Option<AppMeshNode>, }
    }
}

wire_struct! {
    /// A node by its name.
    AppMeshNode { keep { name: String, } }
}

wire_struct! {
    /// A weighted TraefikService.
    Traefik { keep { weighted_traefik_service_name: String, } }
}

wire_struct! {
    /// A route of APISIX.
    Apisix { omit { route: Option<ApisixRoute>, } }
}

wire_struct! {
    /// The route and its rules.
    ApisixRoute { keep { name: String, } omit { rules: Vec<String>, } }
}
