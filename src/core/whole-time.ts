/** The last moment of JavaScript's calendar, 275,760 AD. */
const lastMoment = 8.64e15

/** Times are stored in whole milliseconds: rounded up, so that nothing happens too early, and within the calendar. */
export function wholeTime(milliseconds: number): number {
  return Math.min(lastMoment, Math.max(-lastMoment, Math.ceil(milliseconds)))
}
