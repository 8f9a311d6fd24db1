// Routing of ns-3's nodes by source, destination and lane, along the routes that Armillary names.
#ifndef ARMILLARY_NS3_ROUTES_H
#define ARMILLARY_NS3_ROUTES_H

#include <map>
#include <tuple>

#include "ns3/internet-module.h"
#include "ns3/network-module.h"

namespace armillary {

// A lane between two NPUs. Lanes are counted from 0 in the order in which Armillary names them.
struct Way {
    uint32_t src, dst, lane;
    bool operator<(const Way& other) const {
        return std::tie(src, dst, lane) < std::tie(other.src, other.dst, other.lane);
    }
};

// An NPU has one address for each lane, on all of its devices.
class Addresses {
public:
    explicit Addresses(uint32_t npus) : npus_(npus) {}
    ns3::Ipv4Address of(uint32_t npu, uint32_t lane) const {
        return ns3::Ipv4Address(FIRST + lane * npus_ + npu);
    }
    uint32_t npu(ns3::Ipv4Address address) const { return (address.Get() - FIRST) % npus_; }
    Way way(ns3::Ipv4Address src, ns3::Ipv4Address dst) const {
        return {npu(src), npu(dst), (dst.Get() - FIRST) / npus_};
    }

private:
    static constexpr uint32_t FIRST = 0x0A000001;
    uint32_t npus_;
};

class Routes : public ns3::Ipv4RoutingProtocol {
public:
    static ns3::TypeId GetTypeId() {
        static ns3::TypeId tid =
            ns3::TypeId("armillary::Routes").SetParent<ns3::Ipv4RoutingProtocol>();
        return tid;
    }
    // `node`: its number, which is an NPU's below their number.
    Routes(uint32_t node, Addresses addresses) : node_(node), addresses_(addresses) {}

    // Packets of a lane leave by `device`.
    void add(Way way, ns3::Ptr<ns3::NetDevice> device) {
        auto route = ns3::Create<ns3::Ipv4Route>();
        route->SetSource(addresses_.of(way.src, way.lane));
        route->SetDestination(addresses_.of(way.dst, way.lane));
        route->SetGateway(addresses_.of(way.dst, way.lane));
        route->SetOutputDevice(device);
        routes_[way] = route;
    }

    ns3::Ptr<ns3::Ipv4Route> RouteOutput(ns3::Ptr<ns3::Packet>, const ns3::Ipv4Header& header,
                                         ns3::Ptr<ns3::NetDevice>,
                                         ns3::Socket::SocketErrno& error) override {
        Way way = addresses_.way(header.GetSource(), header.GetDestination());
        auto found = routes_.find({node_, way.dst, way.lane});
        bool known = found != routes_.end();
        error = known ? ns3::Socket::ERROR_NOTERROR : ns3::Socket::ERROR_NOROUTETOHOST;
        return known ? found->second : nullptr;
    }
    bool RouteInput(ns3::Ptr<const ns3::Packet> packet, const ns3::Ipv4Header& header,
                    ns3::Ptr<const ns3::NetDevice> device, UnicastForwardCallback forward,
                    MulticastForwardCallback, LocalDeliverCallback deliver,
                    ErrorCallback) override {
        Way way = addresses_.way(header.GetSource(), header.GetDestination());
        if (way.dst == node_) {
            deliver(packet, header, ipv4_->GetInterfaceForDevice(device));
            return true;
        }
        auto found = routes_.find(way);
        if (found == routes_.end()) return false;
        forward(found->second, packet, header);
        return true;
    }
    void NotifyInterfaceUp(uint32_t) override {}
    void NotifyInterfaceDown(uint32_t) override {}
    void NotifyAddAddress(uint32_t, ns3::Ipv4InterfaceAddress) override {}
    void NotifyRemoveAddress(uint32_t, ns3::Ipv4InterfaceAddress) override {}
    void SetIpv4(ns3::Ptr<ns3::Ipv4> ipv4) override { ipv4_ = ipv4; }
    void PrintRoutingTable(ns3::Ptr<ns3::OutputStreamWrapper>, ns3::Time::Unit) const override {}

private:
    uint32_t node_;
    Addresses addresses_;
    ns3::Ptr<ns3::Ipv4> ipv4_;
    std::map<Way, ns3::Ptr<ns3::Ipv4Route>> routes_;
};

}  // namespace armillary

#endif
