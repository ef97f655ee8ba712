import type { Member } from './crew';
import type { Start } from './protocol';

/**
 * Finds the secrets of a challenge: each idle member takes the next one. Returns the nonce, or -1
 * if there is none.
 */
export const divide = (members: Member[], start: Start, onProgress: (done: number, total: number) => void): Promise<number> =>
  new Promise((resolve, reject) => {
    const secrets: number[] = [];
    let next = 0;
    let done = 0;
    const drive = async (member: Member): Promise<void> => {
      const total = await member.ask(start);
      if (!total) return resolve(-1);
      if (!next) onProgress(0, total);
      while (next < total) {
        const index = next++;
        const secret = await member.ask(index);
        if (secret < 0) return resolve(-1);
        secrets[index] = secret;
        onProgress(++done, total);
        if (done === total) resolve(member.ask(secrets));
      }
    };
    // A member that starts late delays no other, but none may fail with its share.
    members.forEach((member) => drive(member).catch(reject));
  });
