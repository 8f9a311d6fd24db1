// Routing of ns-3's nodes by source and destination, along the routes that Armillary names.
#ifndef ARMILLARY_NS3_ROUTES_H
#define ARMILLARY_NS3_ROUTES_H

#include <unordered_map>

#include "ns3/internet-module.h"
#include "ns3/network-module.h"

namespace armillary {

// NPU n has one address, on all of its devices.
constexpr uint32_t FIRST_ADDRESS = 0x0A000001;
inline ns3::Ipv4Address address_of(uint32_t npu) { return ns3::Ipv4Address(FIRST_ADDRESS + npu); }
inline uint32_t npu_of(ns3::Ipv4Address address) { return address.Get() - FIRST_ADDRESS; }

class Routes : public ns3::Ipv4RoutingProtocol {
public:
    static ns3::TypeId GetTypeId() {
        static ns3::TypeId tid =
            ns3::TypeId("armillary::Routes").SetParent<ns3::Ipv4RoutingProtocol>();
        return tid;
    }
    // `node`: its number, which is an NPU's below `npus`.
    Routes(uint32_t node, uint32_t npus) : node_(node), npus_(npus) {}

    // Packets from `src` to `dst` leave by `device`.
    void add(uint32_t src, uint32_t dst, ns3::Ptr<ns3::NetDevice> device) {
        auto route = ns3::Create<ns3::Ipv4Route>();
        route->SetSource(address_of(src));
        route->SetDestination(address_of(dst));
        route->SetGateway(address_of(dst));
        route->SetOutputDevice(device);
        routes_[key(src, dst)] = route;
    }

    ns3::Ptr<ns3::Ipv4Route> RouteOutput(ns3::Ptr<ns3::Packet>, const ns3::Ipv4Header& header,
                                         ns3::Ptr<ns3::NetDevice>,
                                         ns3::Socket::SocketErrno& error) override {
        auto found = routes_.find(key(node_, npu_of(header.GetDestination())));
        bool known = found != routes_.end();
        error = known ? ns3::Socket::ERROR_NOTERROR : ns3::Socket::ERROR_NOROUTETOHOST;
        return known ? found->second : nullptr;
    }
    bool RouteInput(ns3::Ptr<const ns3::Packet> packet, const ns3::Ipv4Header& header,
                    ns3::Ptr<const ns3::NetDevice> device, UnicastForwardCallback forward,
                    MulticastForwardCallback, LocalDeliverCallback deliver,
                    ErrorCallback) override {
        uint32_t src = npu_of(header.GetSource()), dst = npu_of(header.GetDestination());
        if (dst == node_) {
            deliver(packet, header, ipv4_->GetInterfaceForDevice(device));
            return true;
        }
        auto found = routes_.find(key(src, dst));
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
    uint64_t key(uint32_t src, uint32_t dst) const { return uint64_t(src) * npus_ + dst; }

    uint32_t node_, npus_;
    ns3::Ptr<ns3::Ipv4> ipv4_;
    std::unordered_map<uint64_t, ns3::Ptr<ns3::Ipv4Route>> routes_;
};

}  // namespace armillary

#endif
