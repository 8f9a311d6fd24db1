// Queue disciplines of ns-3 at the ports of switches.
#ifndef ARMILLARY_NS3_QUEUE_DISCS_H
#define ARMILLARY_NS3_QUEUE_DISCS_H

#include <set>
#include <string>

#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"
#include "settings.h"

namespace armillary {

// What a port holds: bytes, or whole packets for disciplines that count only these.
inline ns3::QueueSize room_of(const Settings& settings) {
    static const std::set<std::string> counted = {"PfifoFastQueueDisc", "FqCoDelQueueDisc",
                                                  "FqPieQueueDisc", "FqCobaltQueueDisc"};
    uint64_t bytes = settings.buffer ? settings.buffer : UINT32_MAX;
    bool packets = counted.count(settings.queue_disc) > 0;
    uint64_t most = packets ? std::max<uint64_t>(bytes / settings.mtu, 1) : bytes;
    return {packets ? ns3::QueueSizeUnit::PACKETS : ns3::QueueSizeUnit::BYTES,
            uint32_t(std::min<uint64_t>(most, UINT32_MAX))};
}

// ns-3's defaults count packets and suit slow links. Here sizes are bytes and packets as large as the
// MTU. `set` sets the default of an attribute. A mark of the platform becomes RED on the current queue.
template <typename Set>
void queue_disc_defaults(const Settings& settings, Set set) {
    using namespace ns3;
    if (settings.queue_disc == "MqQueueDisc")
        throw std::runtime_error("--queue-disc=MqQueueDisc: a port has a single queue");
    set("ns3::FifoQueueDisc::MaxSize", QueueSizeValue(room_of(settings)));
    set("ns3::RedQueueDisc::MeanPktSize", UintegerValue(settings.mtu));
    set("ns3::RedQueueDisc::MinTh", DoubleValue(5.0 * settings.mtu));
    set("ns3::RedQueueDisc::MaxTh", DoubleValue(15.0 * settings.mtu));
    set("ns3::PieQueueDisc::MeanPktSize", UintegerValue(settings.mtu));
    set("ns3::CoDelQueueDisc::MinBytes", UintegerValue(settings.mtu));
    if (settings.mark_from == 0) return;
    if (settings.queue_disc != "RedQueueDisc")
        throw std::runtime_error("network.packet.marking: only RedQueueDisc marks as it says; "
                                 "remove --queue-disc=" + settings.queue_disc);
    set("ns3::TcpSocketBase::UseEcn", EnumValue(TcpSocketState::On));
    set("ns3::RedQueueDisc::UseEcn", BooleanValue(true));
    set("ns3::RedQueueDisc::UseHardDrop", BooleanValue(false));
    set("ns3::RedQueueDisc::QW", DoubleValue(1.0));
    set("ns3::RedQueueDisc::Gentle", BooleanValue(false));
    set("ns3::RedQueueDisc::MinTh", DoubleValue(settings.mark_from));
    set("ns3::RedQueueDisc::MaxTh", DoubleValue(std::max(settings.mark_to, settings.mark_from)));
    set("ns3::RedQueueDisc::LInterm", DoubleValue(1.0 / settings.mark_probability));
}

// Puts the discipline in front of a device, which then holds one packet itself.
inline ns3::Ptr<ns3::QueueDisc> install_queue_disc(const Settings& settings,
                                                   ns3::Ptr<ns3::PointToPointNetDevice> device,
                                                   uint64_t bandwidth, uint64_t latency_ps) {
    using namespace ns3;
    auto queues = CreateObject<NetDeviceQueueInterface>();
    queues->GetTxQueue(0)->ConnectQueueTraces(device->GetQueue());
    device->AggregateObject(queues);
    ObjectFactory factory("ns3::" + settings.queue_disc);
    auto disc = factory.Create<QueueDisc>();
    disc->SetAttributeFailSafe("MaxSize", QueueSizeValue(room_of(settings)));
    disc->SetAttributeFailSafe("LinkBandwidth", DataRateValue(DataRate(bandwidth * 8)));
    disc->SetAttributeFailSafe("LinkDelay", TimeValue(PicoSeconds(latency_ps)));
    device->GetNode()->GetObject<TrafficControlLayer>()->SetRootQueueDiscOnDevice(device, disc);
    return disc;
}

}  // namespace armillary

#endif
