// The event list of ns-3, which lets the caller see the next event and stop between two events.
//
// ns-3's TCP cancels a timer for each acknowledgement, and a cancelled event stays in ns-3's own lists
// until its time comes. Here cancelled events are dropped now and then.
#ifndef ARMILLARY_NS3_EVENTS_H
#define ARMILLARY_NS3_EVENTS_H

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <typeinfo>
#include <vector>

#include "../c/armillary.h"
#include "ns3/event-impl.h"
#include "ns3/scheduler.h"
#include "ns3/simulator.h"

namespace armillary {

class Events : public ns3::Scheduler {
public:
    static constexpr uint64_t NEVER = UINT64_MAX;
    static ns3::TypeId GetTypeId() {
        static ns3::TypeId tid = ns3::TypeId("armillary::Events")
                                     .SetParent<ns3::Scheduler>()
                                     .AddConstructor<Events>();
        return tid;
    }

    // The list in use, of which there is one for the simulator of a process.
    static inline Events* current = nullptr;
    // Whether there are timers of PIE.
    static inline bool has_endless = false;

    Events() { current = this; }

    // Runs all events up to `limit`, a time of ns-3. `stop_after_now` ends it earlier.
    void run(uint64_t limit) {
        limit_ = limit;
        ns3::Simulator::Run();
    }
    // No event later than the present one is run.
    void stop_after_now() { limit_ = ns3::Simulator::Now().GetTimeStep(); }
    // When the next event is.
    uint64_t next() const {
        drop_cancelled();
        return is_over() ? NEVER : heap_.front().key.m_ts;
    }

    void Insert(const Event& event) override {
        if (++inserted_ > heap_.size() / 2 + 4096) purge();
        heap_.push_back(event);
        std::push_heap(heap_.begin(), heap_.end(), later);
    }
    bool IsEmpty() const override {
        uint64_t due = next();
        if (due <= limit_ && due != NEVER) {
            if (++asked_ % 65536 == 0) report_work();
            return false;
        }
        // ns-3 holds an empty list to be the end of everything, so the run is stopped instead.
        if (due == NEVER) return true;
        ns3::Simulator::Stop();
        return false;
    }
    Event PeekNext() const override { return heap_.front(); }
    Event RemoveNext() override {
        std::pop_heap(heap_.begin(), heap_.end(), later);
        Event event = heap_.back();
        heap_.pop_back();
        return event;
    }
    void Remove(const Event& event) override {
        auto at = std::find_if(heap_.begin(), heap_.end(),
                               [&](const Event& other) { return other.key == event.key; });
        heap_.erase(at);
        std::make_heap(heap_.begin(), heap_.end(), later);
    }

private:
    static bool later(const Event& one, const Event& other) { return one.key > other.key; }
    // Nothing is left but timers of PIE, which start themselves again for ever.
    bool is_over() const {
        if (heap_.empty()) return true;
        return has_endless && std::all_of(heap_.begin(), heap_.end(), [](const Event& event) {
                   return event.impl->IsCancelled() ||
                          strstr(typeid(*event.impl).name(), "PieQueueDisc") != nullptr;
               });
    }
    void drop_cancelled() const {
        while (!heap_.empty() && heap_.front().impl->IsCancelled()) {
            std::pop_heap(heap_.begin(), heap_.end(), later);
            heap_.back().impl->Unref();
            heap_.pop_back();
        }
    }
    void purge() {
        inserted_ = 0;
        auto dead = std::partition(heap_.begin(), heap_.end(),
                                   [](const Event& event) { return !event.impl->IsCancelled(); });
        std::for_each(dead, heap_.end(), [](const Event& event) { event.impl->Unref(); });
        heap_.erase(dead, heap_.end());
        std::make_heap(heap_.begin(), heap_.end(), later);
    }
    void report_work() const {
        auto now = std::chrono::steady_clock::now();
        if (now - reported_ < std::chrono::seconds(1)) return;
        reported_ = now;
        armillary_write(ARMILLARY_BUSY, 0, 0, 0, 0, 0);
        armillary_flush();
    }

    mutable std::vector<Event> heap_;
    uint64_t limit_ = NEVER;
    uint64_t inserted_ = 0;
    mutable uint64_t asked_ = 0;
    mutable std::chrono::steady_clock::time_point reported_ = std::chrono::steady_clock::now();
};

}  // namespace armillary

#endif
