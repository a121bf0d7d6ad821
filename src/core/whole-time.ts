/** The last moment of the calendar, 275,760 AD. */
const lastMoment = 8.64e15

/** Times are stored in whole milliseconds: the next one, so that nothing happens too early, within the calendar. */
export function wholeTime(milliseconds: number): number {
  return Math.min(lastMoment, Math.max(-lastMoment, Math.ceil(milliseconds)))
}
