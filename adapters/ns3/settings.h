// What a run asks of ns-3: the settings of the platform's `network.packet`, then the options of the
// command, which win.
#ifndef ARMILLARY_NS3_SETTINGS_H
#define ARMILLARY_NS3_SETTINGS_H

#include <cstdint>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace armillary {

struct Settings {
    std::string tcp = "TcpNewReno";       // a congestion control of ns-3, without ns3::
    std::string recovery = "TcpPrrRecovery";
    std::string queue_disc = "none";      // of the ports of switches: a type of ns-3, without ns3::
    uint64_t mtu = 1500, framing = 2, window = 4 << 20, initial_window = 10, ack_every = 2;
    uint64_t buffer = 0;                  // bytes of a port of a switch; 0: unlimited
    uint64_t mark_from = 0, mark_to = 0;  // bytes of a queue, 0: no marks
    double mark_probability = 1;
    uint64_t rto_min_ps = 200'000'000'000, ack_delay_ps = 40'000'000'000, injection_ps = 0;
    uint64_t open_all = 90'000;           // as many pairs at most are connected before time 0
    bool sack = true, exact = true;       // exact: times in ps, not in ns
    std::vector<std::pair<std::string, std::string>> attributes;

    // Takes lines `key=value` of the platform. Throws std::runtime_error for what ns-3 does not have.
    void platform(const std::string& text) {
        std::istringstream lines(text);
        std::map<std::string, std::string> given;
        for (std::string line; std::getline(lines, line);) {
            size_t at = line.find('=');
            if (at != std::string::npos) given[line.substr(0, at)] = line.substr(at + 1);
        }
        for (auto& [key, value] : given) take(key, value);
    }

    // Takes an option `--key=value` of the command.
    void option(const std::string& argument) {
        size_t at = argument.find('=');
        if (argument.rfind("--", 0) != 0 || at == std::string::npos)
            throw std::runtime_error("invalid option " + argument + "; allowed: --KEY=VALUE");
        std::string key = argument.substr(2, at - 2), value = argument.substr(at + 1);
        if (key == "tcp") tcp = value;
        else if (key == "recovery") recovery = value;
        else if (key == "queue-disc") queue_disc = value;
        else if (key == "mtu") mtu = number(key, value);
        else if (key == "window") window = number(key, value);
        else if (key == "initial-window") initial_window = number(key, value);
        else if (key == "ack-every") ack_every = number(key, value);
        else if (key == "buffer") buffer = number(key, value);
        else if (key == "rto-min-us") rto_min_ps = number(key, value) * 1'000'000;
        else if (key == "ack-delay-us") ack_delay_ps = number(key, value) * 1'000'000;
        else if (key == "open-all") open_all = number(key, value);
        else if (key == "resolution" && (value == "ns" || value == "ps")) exact = value == "ps";
        else if (key == "attribute" && value.find('=') != std::string::npos)
            attributes.emplace_back(value.substr(0, value.find('=')), value.substr(value.find('=') + 1));
        else
            throw std::runtime_error(
                "invalid option " + argument +
                "; allowed: --tcp=TcpCubic --recovery=TcpClassicRecovery --queue-disc=RedQueueDisc"
                " --mtu=BYTES --window=BYTES --initial-window=SEGMENTS --ack-every=SEGMENTS"
                " --buffer=BYTES --rto-min-us=N --ack-delay-us=N --open-all=PAIRS --resolution=ns|ps"
                " --attribute=ns3::TYPE::NAME=VALUE");
    }

    // Throws std::runtime_error for values that do not fit together.
    void check() const {
        between("mtu", mtu, 41, 65'535);
        between("window", window, mtu - 40, 1 << 30);
        between("initial-window", initial_window, 1, UINT16_MAX);
        between("ack-every", ack_every, 1, UINT16_MAX);
        if (buffer > 0) between("buffer", buffer, mtu + 2, UINT32_MAX);
    }

private:
    static void between(const std::string& key, uint64_t value, uint64_t least, uint64_t most) {
        if (value >= least && value <= most) return;
        throw std::runtime_error("invalid " + key + ": " + std::to_string(value) + "; allowed: " +
                                 std::to_string(least) + " to " + std::to_string(most));
    }
    static uint64_t number(const std::string& key, const std::string& value) {
        size_t end = 0;
        uint64_t found = 0;
        try {
            found = std::stoull(value, &end);
        } catch (const std::exception&) {
        }
        if (end == 0 || end != value.size())
            throw std::runtime_error(key + ": invalid number: " + value);
        return found;
    }
    static void refuse(const std::string& key, const std::string& why) {
        throw std::runtime_error("network." + key + ": " + why);
    }
    void take(const std::string& key, const std::string& value) {
        if (key == "packet.mtu_bytes") mtu = number(key, value);
        else if (key == "packet.framing_bytes") framing = number(key, value);
        else if (key == "packet.injection_latency_ps") injection_ps = number(key, value);
        else if (key == "packet.tick_ps") exact = value != "1000";
        else if (key == "packet.buffer.per_port_bytes") buffer = number(key, value);
        else if (key == "packet.tcp.window_bytes") window = number(key, value);
        else if (key == "packet.tcp.initial_window") initial_window = number(key, value);
        else if (key == "packet.tcp.ack_every") ack_every = number(key, value);
        else if (key == "packet.tcp.ack_delay_ps") ack_delay_ps = number(key, value);
        else if (key == "packet.tcp.rto_min_ps") rto_min_ps = number(key, value);
        else if (key == "packet.tcp.sack") sack = value == "true";
        else if (key == "packet.tcp.congestion_control")
            tcp = value == "cubic" ? "TcpCubic" : value == "dctcp" ? "TcpDctcp" : "TcpNewReno";
        else if (key == "packet.tcp.hystart")
            attributes.emplace_back("ns3::TcpCubic::HyStart", value);
        else if (key == "packet.tcp.recovery")
            recovery = value == "half" ? "TcpClassicRecovery" : "TcpPrrRecovery";
        else if (key == "packet.transport" && value != "tcp") refuse(key, "ns-3 has no RDMA");
        else if (key == "packet.buffer.shared_bytes") refuse(key, "ns-3's ports share no buffer");
        else if (key == "packet.pause.above_bytes") refuse(key, "ns-3 has no priority flow control");
        else if (key == "packet.marking.from_bytes") {
            mark_from = number(key, value);
            queue_disc = "RedQueueDisc";
        } else if (key == "packet.marking.to_bytes") mark_to = number(key, value);
        else if (key == "packet.marking.probability") mark_probability = std::stod(value);
        else if (key == "routing" && value == "spray") refuse(key, "a connection has one route");
    }
};

}  // namespace armillary

#endif
