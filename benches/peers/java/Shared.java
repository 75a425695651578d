import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Semaphores and read-write locks of Java, each used as its documentation tells: {@code Shared KIND PORT}.
 *
 * <p>{@code share MOST FIRST CALLERS TURNS} is answered by the events of each caller's turns and a line {@code end}.
 * Times are System.nanoTime, which is CLOCK_MONOTONIC on Linux.
 */
public final class Shared {
    private static final long HOLD_MS = 20;

    private interface Release {
        void run() throws Exception;
    }

    private interface Acquire {
        Release run(boolean alone) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        Acquire acquire = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            int[] numbers = new int[4];
            for (int word = 0; word < 4; word++) {
                numbers[word] = Integer.parseInt(words[word + 1]);
            }
            if (acquire == null) {
                acquire = prepare(arguments[0], "127.0.0.1:" + arguments[1], numbers[0]);
            }
            share(acquire, numbers[1], numbers[2], numbers[3]);
        }
        // Both libraries have threads that would keep the process alive.
        System.exit(0);
    }

    private static Acquire prepare(String kind, String address, int most) throws Exception {
        if (kind.startsWith("curator")) {
            CuratorFramework client =
                    CuratorFrameworkFactory.newClient(address, new ExponentialBackoffRetry(1000, 3));
            client.start();
            if (kind.equals("curator-rw")) {
                InterProcessReadWriteLock both = new InterProcessReadWriteLock(client, "/peer/shared");
                return alone -> {
                    InterProcessMutex mutex = alone ? both.writeLock() : both.readLock();
                    mutex.acquire();
                    return mutex::release;
                };
            }
            InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, "/peer/shared", most);
            return alone -> {
                Lease lease = semaphore.acquire();
                return () -> semaphore.returnLease(lease);
            };
        }
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + address);
        RedissonClient redisson = Redisson.create(config);
        switch (kind) {
            case "redisson-rw": {
                RReadWriteLock both = redisson.getReadWriteLock("peer:shared");
                return alone -> {
                    RLock lock = alone ? both.writeLock() : both.readLock();
                    lock.lock();
                    return lock::unlock;
                };
            }
            case "redisson-permits": {
                RPermitExpirableSemaphore semaphore = redisson.getPermitExpirableSemaphore("peer:shared");
                semaphore.trySetPermits(most);
                return alone -> {
                    String permit = semaphore.acquire(30, TimeUnit.SECONDS);
                    return () -> semaphore.release(permit);
                };
            }
            default: {
                RSemaphore semaphore = redisson.getSemaphore("peer:shared");
                semaphore.trySetPermits(most);
                return alone -> {
                    semaphore.acquire();
                    return semaphore::release;
                };
            }
        }
    }

    private static void share(Acquire acquire, int first, int callers, int turns) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(callers);
        List<Callable<String>> tasks = new ArrayList<>();
        for (int caller = 0; caller < callers; caller++) {
            int number = first + caller;
            tasks.add(() -> caller(acquire, number, turns));
        }
        StringBuilder answer = new StringBuilder();
        for (Future<String> events : threads.invokeAll(tasks)) {
            answer.append(events.get());
        }
        threads.shutdown();
        System.out.print(answer);
        System.out.flush();
    }

    private static String caller(Acquire acquire, int number, int turns) throws Exception {
        StringBuilder events = new StringBuilder();
        for (int turn = 0; turn < turns; turn++) {
            events.append("called " + System.nanoTime() + "\n");
            Release release = acquire.run((number + turn) % 10 == 0);
            events.append("got " + System.nanoTime() + "\n");
            Thread.sleep(HOLD_MS);
            events.append("released " + System.nanoTime() + "\n");
            release.run();
        }
        return events.append("end\n").toString();
    }
}
