import type { Member } from './pool';
import type { Start } from './protocol';

/**
 * Distributes the searches of a challenge: each idle member takes the next one. Returns the nonce,
 * or -1 if the challenge has no solution. `onProgress` is called with 0 as soon as the first member
 * is ready, and after each search. `onWait` is called with the milliseconds that the rest of the work is
 * expected to take, after each search and whenever a member has measured its rate.
 */
export const splitWork = (
  members: Member[],
  start: Start,
  onProgress: (done: number, total: number) => void,
  onWait: (wait: number) => void,
): Promise<number> =>
  new Promise((resolve, reject) => {
    const secrets: number[] = [];
    let next = 0;
    let done = 0;
    const rates = new Map<Member, number>();
    const estimate = (total: number) => {
      let sum = 0;
      rates.forEach((rate) => (sum += rate));
      // A member that has not measured its rate yet is expected to have the mean of the others.
      if (sum) onWait((((start.challenge.difficulty * (1 - done / total)) / sum) * rates.size) / members.length);
    };
    const drive = async (member: Member): Promise<void> => {
      const total = await member.send(start);
      if (!total) return resolve(-1);
      if (!next) onProgress(0, total);
      while (next < total) {
        const index = next++;
        const secret = await member.send(index, (rate) => {
          rates.set(member, rate);
          estimate(total);
        });
        if (secret < 0) return resolve(-1);
        secrets[index] = secret;
        onProgress(++done, total);
        estimate(total);
        if (done === total) resolve(member.send(secrets));
      }
    };
    // A member that starts late delays no other, but the failure of one fails the whole.
    members.forEach((member) => drive(member).catch(reject));
  });
