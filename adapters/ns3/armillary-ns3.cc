// ns-3 as a network simulator for `--backend external:`. See docs/guides/external-simulators.md.
//
// Links are point-to-point links, nodes are IP routers that follow Armillary's routes, and each lane of
// a pair of NPUs has one TCP connection for the whole run. Connections are set up before time 0.
#include <deque>
#include <memory>

#include "events.h"
#include "ns3/core-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"
#include "queue_discs.h"
#include "routes.h"
#include "settings.h"
#include "tcp.h"

using namespace ns3;

namespace armillary {

constexpr uint16_t PORT = 9;
constexpr uint32_t PPP_HEADER = 2;

struct Link {
    uint32_t from, to;
    uint64_t bandwidth, latency;
    Ptr<PointToPointNetDevice> device;
    uint64_t packets = 0, bytes = 0, busy_ps = 0, longest = 0;
};

struct Counts {
    uint64_t data = 0, acknowledgements = 0, drops = 0, marks = 0;
    uint64_t retransmits = 0, recoveries = 0, timeouts = 0;
};

struct Connection {
    Way way;
    Ptr<Socket> socket;
    bool connected = false;
    uint64_t unsent = 0;                                 // bytes not yet given to TCP
    uint64_t promised = 0, received = 0;                 // bytes of messages, and those that arrived
    std::deque<std::pair<uint64_t, uint64_t>> messages;  // (end in the stream, token)
    SequenceNumber32 highest{0};
};

class Simulation {
public:
    Simulation(Settings settings, uint32_t npus, uint32_t nodes, uint64_t links)
        : settings_(std::move(settings)), npus_(npus), addresses_(npus), links_(links) {
        configure();
        for (uint32_t node = 0; node < nodes; ++node) nodes_.push_back(CreateObject<Node>());
    }

    void link(const armillary_record& in) {
        links_.at(in.z) = Link{in.a, in.b, in.x, in.y, nullptr};
    }

    void route(const armillary_record& in) {
        if (routes_.empty()) build();
        Way way{in.a, in.b, lane(in.y)};
        connections_.try_emplace(way);
        routes_[links_[in.c].from]->add(way, links_[in.c].device);
    }

    // Sets the connections up. Time 0 is when all is quiet again.
    void ready() {
        if (routes_.empty()) build();
        if (connections_.size() <= settings_.open_all)
            for (auto& [way, _] : connections_) connection(way);
        events().run(Events::NEVER);
        zero_ = Simulator::Now().GetTimeStep();
        counts_ = {};
        for (auto& link : links_) link.packets = link.bytes = link.busy_ps = link.longest = 0;
    }

    void start(const armillary_record& in) {
        uint64_t at = zero_ + (in.x + settings_.injection_ps + step() - 1) / step();
        Time wait = TimeStep(at - std::min<uint64_t>(at, Simulator::Now().GetTimeStep()));
        Simulator::Schedule(wait, &Simulation::send, this, Way{in.a, in.b, lane(in.c)}, in.y, in.z);
    }

    void advance(uint64_t until) {
        bool forever = until == ARMILLARY_NEVER;
        events().run(forever ? Events::NEVER : zero_ + until / step());
        uint64_t next = events().next();
        armillary_write(ARMILLARY_NEXT, 0, 0,
                        next == Events::NEVER ? ARMILLARY_NEVER : (next - zero_) * step(), 0, 0);
        armillary_flush();
    }

    void usage() {
        uint64_t hops = 0, longest = 0;
        for (size_t at = 0; at < links_.size(); ++at) {
            const Link& link = links_[at];
            hops += link.packets;
            if (link.from >= npus_) longest = std::max(longest, link.longest);
            if (link.packets)
                armillary_write(ARMILLARY_CARRIED, at, 0, link.bytes, link.packets, link.busy_ps);
        }
        const std::pair<uint32_t, uint64_t> counts[] = {
            {ARMILLARY_DATA_PACKETS, counts_.data},
            {ARMILLARY_ACKNOWLEDGEMENTS, counts_.acknowledgements},
            {ARMILLARY_HOPS, hops},
            {ARMILLARY_DROPS, counts_.drops},
            {ARMILLARY_MARKS, counts_.marks},
            {ARMILLARY_RETRANSMITS, counts_.retransmits},
            {ARMILLARY_FAST_RECOVERIES, counts_.recoveries},
            {ARMILLARY_TIMEOUTS, counts_.timeouts},
            {ARMILLARY_LONGEST_QUEUE, longest}};
        for (auto [which, value] : counts) armillary_write(ARMILLARY_COUNT, which, 0, value, 0, 0);
        armillary_write(ARMILLARY_DONE, 0, 0, 0, 0, 0);
        armillary_flush();
    }

private:
    // The number of a lane, from 0.
    uint32_t lane(uint64_t name) { return lanes_.try_emplace(name, lanes_.size()).first->second; }

    uint64_t step() const { return settings_.exact ? 1 : 1000; }
    static Events& events() { return *Events::current; }

    void configure() {
        Time::SetResolution(settings_.exact ? Time::PS : Time::NS);
        ObjectFactory factory;
        factory.SetTypeId(Events::GetTypeId());
        Simulator::SetScheduler(factory);
        Tcp::GetTypeId();  // registers it
        auto set = [](const std::string& name, const AttributeValue& value) {
            if (!Config::SetDefaultFailSafe(name, value))
                throw std::runtime_error("ns-3 does not take this value of " + name);
        };
        settings_.check();
        set("ns3::TcpL4Protocol::SocketType", TypeIdValue(type<TcpCongestionOps>(settings_.tcp)));
        set("ns3::TcpL4Protocol::RecoveryType", TypeIdValue(type<TcpRecoveryOps>(settings_.recovery)));
        set("ns3::TcpSocket::SegmentSize", UintegerValue(settings_.mtu - 40));
        set("ns3::TcpSocket::SndBufSize", UintegerValue(settings_.window));
        set("ns3::TcpSocket::RcvBufSize", UintegerValue(settings_.window));
        set("ns3::TcpSocket::InitialCwnd", UintegerValue(settings_.initial_window));
        set("ns3::TcpSocket::DelAckCount", UintegerValue(settings_.ack_every));
        set("ns3::TcpSocket::DelAckTimeout", TimeValue(PicoSeconds(settings_.ack_delay_ps)));
        set("ns3::TcpSocket::DataRetries", UintegerValue(1'000'000));
        set("ns3::TcpSocket::TcpNoDelay", BooleanValue(true));
        set("ns3::TcpSocketBase::MinRto", TimeValue(PicoSeconds(settings_.rto_min_ps)));
        set("ns3::TcpSocketBase::Sack", BooleanValue(settings_.sack));
        set("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
        set("ns3::Ipv4L3Protocol::DefaultTtl", UintegerValue(255));
        if (settings_.queue_disc != "none") {
            type<QueueDisc>(settings_.queue_disc);
            queue_disc_defaults(settings_, set);
            Events::has_endless = settings_.queue_disc.find("Pie") != std::string::npos;
        }
        for (auto& [name, value] : settings_.attributes) set(name, StringValue(value));
    }

    // The type of ns-3 of this name, which must be a `Kind`.
    template <typename Kind>
    static TypeId type(const std::string& name) {
        TypeId found;
        if (!TypeId::LookupByNameFailSafe("ns3::" + name, &found))
            throw std::runtime_error("ns-3 has no type " + name);
        std::string kind = Kind::GetTypeId().GetName();
        ObjectFactory factory;
        factory.SetTypeId(found);
        // Not every type names the parent that it has.
        if (!found.HasConstructor() || !DynamicCast<Kind>(factory.Create<Object>()))
            throw std::runtime_error("invalid type: " + name + "; allowed: types of the kind " + kind);
        return found;
    }

    // Nodes and devices, once all links are known. Links there and back share a channel.
    void build() {
        for (uint32_t node = 0; node < nodes_.size(); ++node) {
            routes_.push_back(CreateObject<Routes>(node, addresses_));
            install(nodes_[node], routes_.back());
        }
        std::map<std::tuple<uint32_t, uint32_t, uint64_t>, std::deque<size_t>> alone;
        for (size_t at = 0; at < links_.size(); ++at) {
            Link& link = links_[at];
            auto& back = alone[{link.to, link.from, link.latency}];
            if (back.empty()) {
                alone[{link.from, link.to, link.latency}].push_back(at);
                continue;
            }
            size_t other = back.front();
            back.pop_front();
            join(at, &links_[other]);
        }
        for (auto& [_, left] : alone)
            for (size_t at : left) join(at, nullptr);
    }

    void install(Ptr<Node> node, Ptr<Routes> routes) {
        for (const char* name : {"ns3::ArpL3Protocol", "ns3::Ipv4L3Protocol", "ns3::Icmpv4L4Protocol",
                                 "ns3::TrafficControlLayer", "armillary::Tcp"}) {
            ObjectFactory factory(name);
            node->AggregateObject(factory.Create<Object>());
        }
        node->GetObject<Ipv4>()->SetRoutingProtocol(routes);
        node->GetObject<ArpL3Protocol>()->SetTrafficControl(node->GetObject<TrafficControlLayer>());
    }

    void join(size_t at, Link* back) {
        Link& link = links_[at];
        auto channel = CreateObject<PointToPointChannel>();
        channel->SetAttribute("Delay", TimeValue(PicoSeconds(link.latency)));
        link.device = device(link.from, link.bandwidth);
        auto other = device(link.to, back ? back->bandwidth : link.bandwidth);
        link.device->Attach(channel);
        other->Attach(channel);
        attach(link.from, link.device);
        attach(link.to, other);
        observe(at);
        if (back) {
            back->device = other;
            observe(back - links_.data());
        }
    }

    Ptr<PointToPointNetDevice> device(uint32_t node, uint64_t bandwidth) {
        auto device = CreateObject<PointToPointNetDevice>();
        device->SetAddress(Mac48Address::Allocate());
        device->SetDataRate(DataRate(bandwidth * 8));
        device->SetMtu(settings_.mtu);
        // What is on the wire beside ns-3's own header takes its time behind the packet.
        uint64_t gap = settings_.framing > PPP_HEADER ? settings_.framing - PPP_HEADER : 0;
        device->SetInterframeGap(DataRate(bandwidth * 8).CalculateBytesTxTime(gap));
        auto queue = CreateObject<DropTailQueue<Packet>>();
        bool limited = node >= npus_ && settings_.buffer > 0 && settings_.queue_disc == "none";
        uint64_t room = limited ? settings_.buffer : UINT32_MAX;
        queue->SetMaxSize(QueueSize(QueueSizeUnit::BYTES, std::min<uint64_t>(room, UINT32_MAX)));
        if (node >= npus_ && settings_.queue_disc != "none")
            queue->SetMaxSize(QueueSize(QueueSizeUnit::PACKETS, 1));
        device->SetQueue(queue);
        nodes_[node]->AddDevice(device);
        return device;
    }

    void attach(uint32_t node, Ptr<PointToPointNetDevice> device) {
        auto ipv4 = nodes_[node]->GetObject<Ipv4>();
        uint32_t interface = ipv4->AddInterface(device);
        if (node < npus_)
            ipv4->AddAddress(interface, Ipv4InterfaceAddress(addresses_.of(node, 0), Ipv4Mask::GetOnes()));
        ipv4->SetUp(interface);
    }

    void observe(size_t at) {
        Link& link = links_[at];
        link.device->TraceConnectWithoutContext("PhyTxBegin",
                                                MakeBoundCallback(&Simulation::sends, &link));
        auto queue = link.device->GetQueue();
        queue->TraceConnectWithoutContext("BytesInQueue",
                                          MakeBoundCallback(&Simulation::waits, &link));
        queue->TraceConnectWithoutContext("Drop", MakeBoundCallback(&Simulation::dropped, this));
        if (link.from < npus_ || settings_.queue_disc == "none") return;
        auto disc = install_queue_disc(settings_, link.device, link.bandwidth, link.latency);
        disc->TraceConnectWithoutContext("BytesInQueue",
                                         MakeBoundCallback(&Simulation::waits, &link));
        disc->TraceConnectWithoutContext("Drop", MakeBoundCallback(&Simulation::item_dropped, this));
        disc->TraceConnectWithoutContext("Mark", MakeBoundCallback(&Simulation::item_marked, this));
    }

    static void sends(Link* link, Ptr<const Packet> packet) {
        link->packets++;
        link->bytes += packet->GetSize();
        link->busy_ps += uint64_t(packet->GetSize() * 1e12 / link->bandwidth);
    }
    static void waits(Link* link, uint32_t, uint32_t bytes) {
        link->longest = std::max<uint64_t>(link->longest, bytes);
    }
    static void dropped(Simulation* simulation, Ptr<const Packet>) { simulation->counts_.drops++; }
    static void item_dropped(Simulation* simulation, Ptr<const QueueDiscItem>) {
        simulation->counts_.drops++;
    }
    static void item_marked(Simulation* simulation, Ptr<const QueueDiscItem>, const char*) {
        simulation->counts_.marks++;
    }

    Connection& connection(Way way) {
        auto& place = connections_[way];
        if (place) return *place;
        place = std::make_unique<Connection>();
        place->way = way;
        auto there = addresses_.of(way.dst, way.lane);
        auto& listening = listening_[there.Get()];
        if (!listening) {
            listening = Socket::CreateSocket(nodes_[way.dst], TcpSocketFactory::GetTypeId());
            listening->Bind(InetSocketAddress(there, PORT));
            listening->Listen();
            listening->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                         MakeBoundCallback(&Simulation::accepted, this, there));
        }
        Connection* made = place.get();
        made->socket = Socket::CreateSocket(nodes_[way.src], TcpSocketFactory::GetTypeId());
        made->socket->Bind(InetSocketAddress(addresses_.of(way.src, way.lane), 0));
        made->socket->SetConnectCallback(MakeBoundCallback(&Simulation::connected, this, made),
                                         MakeBoundCallback(&Simulation::refused, made));
        made->socket->SetSendCallback(MakeBoundCallback(&Simulation::room, made));
        made->socket->TraceConnectWithoutContext(
            "Tx", MakeBoundCallback(&Simulation::transmits, this, made));
        made->socket->TraceConnectWithoutContext(
            "CongState", MakeBoundCallback(&Simulation::congestion, this));
        made->socket->TraceConnectWithoutContext("RTO",
                                                 MakeBoundCallback(&Simulation::timeout, this));
        made->socket->Connect(InetSocketAddress(there, PORT));
        return *made;
    }

    static void accepted(Simulation* simulation, Ipv4Address there, Ptr<Socket> socket,
                         const Address& from) {
        auto back = InetSocketAddress::ConvertFrom(from).GetIpv4();
        Way way = simulation->addresses_.way(back, there);
        auto& connection = simulation->connections_[way];
        socket->SetRecvCallback(
            MakeBoundCallback(&Simulation::receives, simulation, connection.get()));
        simulation->nodes_[way.dst]->GetObject<Tcp>()->know(socket);
        socket->TraceConnectWithoutContext("Tx", MakeBoundCallback(&Simulation::answers, simulation));
    }
    static void connected(Simulation* simulation, Connection* connection, Ptr<Socket> socket) {
        connection->connected = true;
        simulation->nodes_[connection->way.src]->GetObject<Tcp>()->know(socket);
        pump(connection);
    }
    static void refused(Connection* connection, Ptr<Socket>) {
        throw std::runtime_error("ns-3 could not connect NPU " + std::to_string(connection->way.src) +
                                 " to NPU " + std::to_string(connection->way.dst));
    }
    static void room(Connection* connection, Ptr<Socket>, uint32_t) { pump(connection); }

    // Gives TCP what its buffer takes.
    static void pump(Connection* connection) {
        while (connection->connected && connection->unsent > 0) {
            uint64_t bytes = std::min<uint64_t>(connection->unsent, connection->socket->GetTxAvailable());
            if (bytes == 0) return;
            int sent = connection->socket->Send(Create<Packet>(bytes));
            if (sent <= 0) return;
            connection->unsent -= sent;
        }
    }

    void send(Way way, uint64_t bytes, uint64_t token) {
        Connection& made = connection(way);
        uint64_t size = std::max<uint64_t>(bytes, 1);
        made.promised += size;
        made.unsent += size;
        made.messages.emplace_back(made.promised, token);
        pump(&made);
    }

    static void receives(Simulation* simulation, Connection* connection, Ptr<Socket> socket) {
        while (Ptr<Packet> packet = socket->Recv()) {
            if (packet->GetSize() == 0) break;
            connection->received += packet->GetSize();
        }
        auto& messages = connection->messages;
        for (; !messages.empty() && messages.front().first <= connection->received;
             messages.pop_front())
            simulation->deliver(messages.front().second);
    }

    void deliver(uint64_t token) {
        uint64_t now = Simulator::Now().GetTimeStep() - zero_;
        armillary_write(ARMILLARY_DELIVERY, 0, 0, now * step(), 0, token);
        events().stop_after_now();
    }

    static void transmits(Simulation* simulation, Connection* connection, Ptr<const Packet> packet,
                          const TcpHeader& header, Ptr<const TcpSocketBase>) {
        uint32_t size = packet->GetSize();
        if (size == 0) return;
        simulation->counts_.data++;
        SequenceNumber32 end = header.GetSequenceNumber() + SequenceNumber32(size);
        if (end <= connection->highest) simulation->counts_.retransmits++;
        else connection->highest = end;
    }
    static void answers(Simulation* simulation, Ptr<const Packet> packet, const TcpHeader&,
                        Ptr<const TcpSocketBase>) {
        if (packet->GetSize() == 0) simulation->counts_.acknowledgements++;
    }
    static void congestion(Simulation* simulation, TcpSocketState::TcpCongState_t,
                           TcpSocketState::TcpCongState_t state) {
        if (state == TcpSocketState::CA_RECOVERY) simulation->counts_.recoveries++;
    }
    // A timeout doubles the next one; nothing else does.
    static void timeout(Simulation* simulation, Time before, Time after) {
        if (before.IsStrictlyPositive() && after == before + before) simulation->counts_.timeouts++;
    }

    Settings settings_;
    uint32_t npus_;
    Addresses addresses_;
    std::map<uint64_t, uint32_t> lanes_;
    std::vector<Link> links_;
    std::vector<Ptr<Node>> nodes_;
    std::vector<Ptr<Routes>> routes_;
    std::map<Way, std::unique_ptr<Connection>> connections_;
    std::map<uint32_t, Ptr<Socket>> listening_;
    Counts counts_;
    uint64_t zero_ = 0;
};

int serve(int count, char** arguments) {
    armillary_record in;
    if (!armillary_read(&in) || in.kind != ARMILLARY_HELLO) return 1;
    std::string text(in.y, '\0');
    if (fread(text.data(), 1, text.size(), stdin) != text.size()) return 1;
    Settings settings;
    settings.platform(text);
    for (int at = 1; at < count; ++at) settings.option(arguments[at]);
    Simulation simulation(settings, in.b, in.c, in.x);
    armillary_hello(ARMILLARY_ROUTES_ALL, "ns-3");
    while (armillary_read(&in)) {
        switch (in.kind) {
        case ARMILLARY_LINK: simulation.link(in); break;
        case ARMILLARY_ROUTE: simulation.route(in); break;
        case ARMILLARY_READY: simulation.ready(); break;
        case ARMILLARY_START: simulation.start(in); break;
        case ARMILLARY_ADVANCE: simulation.advance(in.x); break;
        case ARMILLARY_USAGE: simulation.usage(); break;
        }
    }
    return 0;
}

}  // namespace armillary

int main(int count, char** arguments) {
    try {
        int code = armillary::serve(count, arguments);
        fflush(stdout);
        // Without ns-3's own end, which frees a network that nobody needs any more.
        _Exit(code);
    } catch (const std::exception& error) {
        armillary_error(error.what());
        return 1;
    }
}
