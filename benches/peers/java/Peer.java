import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Three locks of Java, each used as its documentation tells: {@code Peer LOCK PORT}.
 *
 * <p>{@code contend N} is answered by the events of N turns and a line {@code end}. Times are System.nanoTime, which is
 * CLOCK_MONOTONIC on Linux.
 */
public final class Peer {
    private static final long HOLD_NS = 1_000_000;

    private interface Step {
        void run() throws Exception;
    }

    private static Step acquire;
    private static Step release;

    public static void main(String[] arguments) throws Exception {
        prepare(arguments[0], "127.0.0.1:" + arguments[1]);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            contend(Integer.parseInt(line.substring("contend ".length())));
        }
        // Both libraries have threads that would keep the process alive.
        System.exit(0);
    }

    private static void prepare(String kind, String address) {
        if (kind.equals("curator")) {
            CuratorFramework client =
                    CuratorFrameworkFactory.newClient(address, new ExponentialBackoffRetry(1000, 3));
            client.start();
            InterProcessMutex mutex = new InterProcessMutex(client, "/peer/contended");
            acquire = mutex::acquire;
            release = mutex::release;
            return;
        }
        Config config = new Config();
        config.useSingleServer().setAddress("redis://" + address);
        RedissonClient redisson = Redisson.create(config);
        RLock lock = kind.equals("redisson-fair")
                ? redisson.getFairLock("peer:contended")
                : redisson.getLock("peer:contended");
        acquire = lock::lock;
        release = lock::unlock;
    }

    private static void contend(int count) throws Exception {
        List<String> events = new ArrayList<>();
        for (int turn = 0; turn < count; turn++) {
            events.add("called " + System.nanoTime());
            acquire.run();
            long got = System.nanoTime();
            events.add("got " + got);
            // Spins, because a sleep takes as long as the kernel likes.
            while (System.nanoTime() < got + HOLD_NS) {
                Thread.onSpinWait();
            }
            events.add("released " + System.nanoTime());
            release.run();
        }
        events.add("end");
        System.out.println(String.join("\n", events));
        System.out.flush();
    }
}
