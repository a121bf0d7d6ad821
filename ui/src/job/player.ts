/** Plays a job: in real time, ten times as fast, or event by event. Periods without events are skipped. */
import { useEffect, useRef, useState } from "react"
import type { Timeline } from "../model/timeline.ts"

export type Speed = 1 | 10 | "step"

export interface Player {
  readonly isPlaying: boolean
  readonly speed: Speed
  toggle(): void
  setSpeed(speed: Speed): void
}

const STEP_MS = 250
/** The longest wait between two events; longer ones are shortened. */
const LONGEST_MS = 1500

interface PlayerOptions {
  readonly timeline: Timeline | null
  readonly index: number
  readonly onMoment: (index: number | null, isFinal: boolean) => void
}

export function usePlayer({ timeline, index, onMoment }: PlayerOptions): Player {
  const [isPlaying, setPlaying] = useState(false)
  const [speed, setSpeed] = useState<Speed>(10)
  const act = useRef(onMoment)
  act.current = onMoment
  useEffect(() => {
    if (!isPlaying || timeline === null) return
    if (index >= timeline.length) {
      setPlaying(false)
      return
    }
    const [now, next] = [timeline.facts[index - 1]?.at ?? 0, timeline.facts[index]!]
    const wait = speed === "step" ? STEP_MS : Math.min(LONGEST_MS, Math.max(0, next.at - now) / speed)
    const timer = setTimeout(() => {
      // Events within a frame are shown together.
      let target = index + 1
      if (speed !== "step")
        while (target < timeline.length && timeline.facts[target]!.at <= next.at + 16 * speed) target++
      act.current(target, target === timeline.length)
    }, wait)
    return () => clearTimeout(timer)
  }, [isPlaying, speed, timeline, index])
  return {
    isPlaying,
    speed,
    setSpeed,
    toggle: () => {
      if (!isPlaying && timeline !== null && index >= timeline.length) onMoment(1, true)
      setPlaying(!isPlaying)
    },
  }
}
