From kernel Require Import definitions lemmas.

(* lf.abstract: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: section 1, against Table 1.
   Freezing improves the final model's accuracy by up to 1.3 percentage points. *)
Module abstract.
(* Table 1: median accuracy without and with freezing, in thousandths *)
Definition table_1 : list (Z * Z) :=
  [(956, 957); (975, 976); (981, 981); (801, 815); (855, 868); (862, 875); (533, 548); (637, 651); (558, 571); (625, 636)]%Z.
Definition largest (p : Z) : Prop := Forall (fun a => (snd a - fst a <= p)%Z) table_1.
Definition printed : Prop := largest 13.
Definition correction : Prop := largest 15 /\ In (533, 548)%Z table_1.

Theorem printed_is_false : ~ printed.
Proof. unfold printed, largest, table_1. intro claim. rewrite Forall_forall in claim. specialize (claim (533, 548)%Z ltac:(simpl; tauto)). simpl in claim. lia. Qed.
Theorem correction_holds : correction.
Proof. split; [repeat constructor; simpl; lia | simpl; tauto]. Qed.
End abstract.

(* lf.angle_metric: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: section 3.3, after Lemma 3.1.
   "Finally, we explain why gamma_t is an effective metric for utility. [...] a larger bias (gamma_t^B) and variance (sigma_DP) make the upper-bound larger, and could
   potentially lead to worse model performance". Refuted is the reading that a signal at a smaller angle makes at least as much progress, whatever its length. *)
Module angle_metric.
(* progress of a step of size eta along the signal s on f = |theta|^2 / 2 at theta, whose gradient is theta *)
Definition progress (eta : R) (theta s : vec) : R := square theta / 2 - square (sub theta (scale eta s)) / 2.
Definition reading : Prop := forall d eta theta s s', length theta = d -> length s = d -> length s' = d -> 0 < eta ->
  0 < norm theta -> 0 < norm s -> 0 < norm s' ->
  angle theta s < angle theta s' -> progress eta theta s' <= progress eta theta s.
(* at the same norm of the signal it is *)
Definition correction : Prop := forall d eta theta s s', length theta = d -> length s = d -> length s' = d -> 0 < eta ->
  0 < norm theta -> 0 < norm s -> 0 < norm s' -> norm s = norm s' ->
  angle theta s < angle theta s' -> progress eta theta s' <= progress eta theta s.

(* theta = (1, 0), eta = 1/2: (1/100, 0) at 0 degrees gains .005, (9/10, 3/10) at 18.4 degrees gains .3375 *)
Theorem reading_is_false : ~ reading.
Proof.
  intro claim. assert (n1 : norm [1; 0] = 1) by norm_of. assert (n2 : norm [1 / 100; 0] = 1 / 100) by norm_of.
  assert (p3 : 0 < norm [9 / 10; 3 / 10]) by (apply norm_pos; unfold square, dot; simpl; lra).
  specialize (claim 2%nat (1 / 2) [1; 0] [1 / 100; 0] [9 / 10; 3 / 10] eq_refl eq_refl eq_refl ltac:(lra) ltac:(lra) ltac:(lra) p3).
  assert (a : angle [1; 0] [1 / 100; 0] < angle [1; 0] [9 / 10; 3 / 10]).
  { apply angle_lt. apply Rle_lt_trans with (99 / 100).
    - apply cosine_le; try lra; unfold square, dot; simpl; lra.
    - unfold cosine. rewrite n1, n2. unfold dot; simpl. lra. }
  specialize (claim a). unfold progress, square, dot in claim. simpl in claim. lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d eta theta s s' et es es' e0 t0 s0 s0' same a. apply angle_lt in a. unfold progress.
  rewrite !square_sub by (rewrite length_scale; congruence). rewrite !square_scale, <- !(norm_norm s), <- !(norm_norm s'), same.
  rewrite !(dot_comm theta), !dot_scale, !(dot_comm _ theta).
  assert (dot theta s' <= dot theta s).
  { assert (N : 0 < norm theta * norm s) by nra. unfold cosine in a. rewrite <- same in a.
    assert (dot theta s' / (norm theta * norm s) * (norm theta * norm s) < dot theta s / (norm theta * norm s) * (norm theta * norm s)) by (apply Rmult_lt_compat_r; assumption).
    unfold Rdiv in H. rewrite !Rmult_assoc, Rinv_l in H by lra. lra. }
  nra.
Qed.
End angle_metric.

(* lf.appA.bias: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Appendix A, last step of the proof.
   E[grad f(theta_t)^T b_t] = E<grad f(theta_t), s_t^B>, b_t the bias of s_t^B. *)
Module appA_bias.
(* s is the biased signal of a random batch, a finite law; its bias against the true gradient f *)
Definition bias d (s : law vec) (f : vec) : vec := sub (mean_vector d s (fun v => v)) f.
Definition printed : Prop := forall d s f, lawful s -> in_space d s -> length f = d ->
  dot f (bias d s f) = E s (fun v => dot f v).
Definition correction : Prop := forall d s f, lawful s -> in_space d s -> length f = d ->
  dot f (bias d s f) = E s (fun v => dot f v) - square f.

(* no clipping, gradients 1 and 2 with equal chances: <grad f, b> is 0, and E<grad f, s^B> is 9/4 *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 1%nat [(1 / 2, [1]); (1 / 2, [2])] [3 / 2] ltac:(lawful_by) ltac:(repeat constructor) eq_refl).
  unfold bias, mean_vector, E, dot in claim. cbv [sum map fold_right add zip scale fst snd zero repeat sub total] in claim. lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d s f ls F e. unfold bias. rewrite dot_comm, dot_sub by (rewrite length_mean_vector; [congruence | exact F]).
  rewrite dot_mean by exact F. unfold square. f_equal. apply E_ext. intro. apply dot_comm.
Qed.
End appA_bias.

(* lf.appA.moment: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Appendix A.
   E|s_t^P|^2 <= sigma^2 C^2 / B^2, s^P = s^B + z, z ~ N(0, (sigma C / B)^2 I). *)
Module appA_moment.
(* the batch is the whole data: s^B, of norm at most C, is fixed; tau = sigma C / B *)
Definition moment {O} (e : expectation O) (n : nat -> O -> R) d (s : vec) tau : R :=
  ex e (fun o => square (add s (scale tau (noise n d o)))).
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\
  forall d s C sigma B, length s = d -> 0 < C -> norm s <= C -> 0 < sigma -> 1 <= B ->
  moment e n d s (sigma * C / B) <= sigma ^ 2 * C ^ 2 / B ^ 2.
Definition correction : Prop := forall (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n ->
  forall d s tau, length s = d -> moment e n d s tau = square s + INR d * tau ^ 2.

Theorem correction_holds : correction.
Proof.
  intros O e n nz d s tau l. unfold moment.
  pose proof (ex_noisy O e n nz d tau (repeat true d) s (repeat_length _ _) l) as h. rewrite ones_all in h.
  rewrite Rmult_comm, <- h. apply ex_ext. intro o.
  replace (mask (repeat true d) (scale tau (noise n d o))) with (scale tau (noise n d o)); [reflexivity|].
  rewrite <- (mask_all (scale tau (noise n d o))) at 1. rewrite length_scale, length_noise. reflexivity.
Qed.
(* d = 1, s^B = 1 = C, sigma = B = 1: 2, printed 1 *)
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & n & nz & claim). assert (n1 : norm [1] = 1) by norm_of.
  specialize (claim 1%nat [1] 1 1 1 eq_refl ltac:(lra) ltac:(lra) ltac:(lra) ltac:(lra)).
  rewrite (correction_holds O e n nz 1%nat [1] (1 * 1 / 1) eq_refl) in claim. unfold square, dot in claim. simpl in claim. lra.
Qed.
End appA_moment.

(* lf.appC.cos: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Appendix C.
   "v_3 = v_1 + v_2. Keeping v_1 the same, if the magnitude of v_2 increases, then the cosine similarity between v_1 and v_3 is larger, leading to a smaller angle." *)
Module appC_cos.
Definition printed : Prop := forall d v1 v2 k, length v1 = d -> length v2 = d -> 0 < norm v1 -> 0 < norm v2 -> 1 < k ->
  0 < norm (add v1 v2) -> 0 < norm (add v1 (scale k v2)) ->
  cosine v1 (add v1 v2) <= cosine v1 (add v1 (scale k v2)).

(* v_1 = (1, 0), v_2 = (0, 3/4) and twice that: the cosine falls from 4/5 *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 2%nat [1; 0] [0; 3 / 4] 2 eq_refl eq_refl).
  assert (n1 : norm [1; 0] = 1) by norm_of. assert (n2 : norm [0; 3 / 4] = 3 / 4) by norm_of.
  assert (e1 : add [1; 0] [0; 3 / 4] = [1; 3 / 4]) by (unfold add; cbn [zip]; f_equal; [lra | f_equal; lra]).
  assert (e2 : add [1; 0] (scale 2 [0; 3 / 4]) = [1; 3 / 2]) by (unfold add, scale; cbn [zip map]; f_equal; [lra | f_equal; lra]).
  rewrite e1, e2 in claim. assert (n3 : norm [1; 3 / 4] = 5 / 4) by norm_of.
  assert (p : 0 < square [1; 3 / 2]) by (unfold square, dot; simpl; lra). pose proof (norm_pos _ p).
  specialize (claim ltac:(lra) ltac:(lra) ltac:(lra) ltac:(lra) ltac:(lra)).
  assert (cosine [1; 0] [1; 3 / 4] = 4 / 5) by (unfold cosine; rewrite n1, n3; unfold dot; simpl; lra).
  assert (cosine [1; 0] [1; 3 / 2] <= 3 / 5) by (apply cosine_le; unfold square, dot; simpl; lra). lra.
Qed.
End appC_cos.

(* lf.def3.1: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Definition 3.1.
   "s_t^U := (1/B) sum_{i=0}^B g_t(x_i)" is the mean gradient over a batch of B and an unbiased estimate of grad f_t. *)
Module def3_1.
(* the gradients of n records, drawn one by one at random; the sum over the draws i = 0, ..., B as printed has B + 1 terms.
   By linearity its mean is the sum of the means: (1/B) sum_{i=0}^B E g(x_i). *)
Definition true_signal (d : nat) (gs : list vec) : vec := average d gs.
Definition mean_of_printed (d B : nat) (gs : list vec) : vec :=
  scale (/ INR B) (sum d (map (fun _ => average d gs) (seq 0 (S B)))).
Definition mean_of_right (d B : nat) (gs : list vec) : vec :=
  scale (/ INR B) (sum d (map (fun _ => average d gs) (seq 1 B))).
Definition printed : Prop := forall d B gs, (0 < B)%nat -> gs <> [] -> Forall (fun g => length g = d) gs ->
  mean_of_printed d B gs = true_signal d gs.
Definition correction : Prop := forall d B gs, (0 < B)%nat -> gs <> [] -> Forall (fun g => length g = d) gs ->
  mean_of_right d B gs = true_signal d gs.

Lemma sum_same d v : length v = d -> forall l : list nat, sum d (map (fun _ => v) l) = scale (INR (length l)) v.
Proof.
  intros e l. induction l as [|x l IH].
  - simpl. subst d. clear. induction v as [|a v IH]; [reflexivity|]. simpl in *. unfold zero in *. simpl. rewrite IH. f_equal. ring.
  - cbn [map length]. change (sum d (v :: ?t)) with (add v (sum d t)). unfold sum in *. cbn [fold_right]. rewrite IH, S_INR.
    clear. generalize (INR (length l)). intro c. induction v as [|a v IH]; [reflexivity|]. unfold add, scale in *. simpl. rewrite IH. f_equal. ring.
Qed.
Lemma scale_scale a b v : scale a (scale b v) = scale (a * b) v.
Proof. unfold scale. rewrite map_map. apply map_ext. intro. ring. Qed.
(* B = 1, two records with the gradients 1 and 2: 3, not 3/2 *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 1%nat 1%nat [[1]; [2]] ltac:(lia) ltac:(discriminate) ltac:(repeat constructor)).
  unfold mean_of_printed, true_signal, average in claim. cbv [sum map fold_right add zip scale zero repeat seq length INR] in claim. injection claim. lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d B gs B0 ne F. unfold mean_of_right, true_signal. rewrite sum_same by (apply length_average, F).
  rewrite seq_length, scale_scale, Rinv_l by (apply not_0_INR; lia). apply scale_one.
Qed.
End def3_1.

(* lf.def3.2: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Definition 3.2.
   gamma_t, the angle between grad f_t and s_t^P, "can be decomposed into gamma^B and gamma^BP which is the angle between grad f_t and s_t^B, and between s_t^B and s_t^P:
   gamma_t = gamma_t^B + gamma_t^BP". *)
Module def3_2.
Definition printed : Prop := forall d f sB sP, length f = d -> length sB = d -> length sP = d ->
  0 < norm f -> 0 < norm sB -> 0 < norm sP -> angle f sP = angle f sB + angle sB sP.

(* grad f = (1, 0), s^B = (4, 3), s^P = (4, -3): gamma = gamma^B, and gamma^BP is not 0 *)
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. assert (n1 : norm [1; 0] = 1) by norm_of. assert (n5 : norm [4; 3] = 5) by norm_of. assert (n5' : norm [4; -3] = 5) by norm_of.
  specialize (claim 2%nat [1; 0] [4; 3] [4; -3] eq_refl eq_refl eq_refl ltac:(lra) ltac:(lra) ltac:(lra)).
  assert (e : cosine [1; 0] [4; 3] = cosine [1; 0] [4; -3]) by (unfold cosine; rewrite n1, n5, n5'; unfold dot; simpl; lra).
  unfold angle in claim at 1 2. rewrite e in claim. assert (z : angle [4; 3] [4; -3] = 0) by lra.
  assert (c : cosine [4; 3] [4; -3] = 1) by (rewrite <- cos_angle, z; apply cos_0).
  unfold cosine in c. rewrite n5, n5' in c. unfold dot in c. simpl in c. lra.
Qed.
End def3_2.

(* lf.lem2.1: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Lemma 2.1, the descent lemma.
   If grad f is Lipschitz with the constant L, then f(v) <= f(u) + <grad f(u), v - u> + (L/2)|v - u|^2. *)
Module lem2_1.
Definition printed : Prop := forall d L f g u v, 0 <= L -> smooth d L f g -> length u = d -> length v = d ->
  f v <= f u + dot (g u) (sub v u) + L / 2 * square (sub v u).

Lemma line_sub u v : length u = length v -> add u (scale 1 (sub v u)) = v.
Proof. revert v; induction u as [|a u IH]; intros [|b v] l; try discriminate; [reflexivity|]. unfold add, sub, scale in *. simpl.
  rewrite IH by (simpl in l; lia). f_equal. ring. Qed.
Lemma line_start u z : length u = length z -> add u (scale 0 z) = u.
Proof. revert z; induction u as [|a u IH]; intros [|b z] l; try discriminate; [reflexivity|]. unfold add, scale in *. simpl.
  rewrite IH by (simpl in l; lia). f_equal. ring. Qed.
Lemma line_move u z s t : length u = length z -> add (add u (scale s z)) (scale t z) = add u (scale (s + t) z).
Proof. revert z; induction u as [|a u IH]; intros [|b z] l; try discriminate; [reflexivity|]. unfold add, scale in *. simpl.
  rewrite IH by (simpl in l; lia). f_equal. ring. Qed.
Lemma line_diff u z t : length u = length z -> sub (add u (scale t z)) u = scale t z.
Proof. revert z; induction u as [|a u IH]; intros [|b z] l; try discriminate; [reflexivity|]. unfold add, sub, scale in *. simpl.
  rewrite IH by (simpl in l; lia). f_equal. ring. Qed.
Theorem printed_holds : printed.
Proof.
  intros d L f g u v L0 [[gl gd] lip] eu ev. set (z := sub v u). assert (ez : length z = d) by (unfold z; rewrite length_sub; congruence).
  set (phi := fun t => f (add u (scale t z)) - t * dot (g u) z - L / 2 * t ^ 2 * square z).
  set (phi' := fun t => dot (g (add u (scale t z))) z - dot (g u) z - L * t * square z).
  assert (lt : forall t, length (add u (scale t z)) = d) by (intro; rewrite length_add; rewrite ?length_scale; congruence).
  assert (der : forall t, derivable_pt_lim phi t (phi' t)).
  { intro t. unfold phi, phi'.
    apply derivable_pt_lim_minus; [apply derivable_pt_lim_minus|].
    - intros eps e0. destruct (gd (add u (scale t z)) z (lt t) ez eps e0) as [del h]. exists del. intros k k0 kd.
      specialize (h k k0 kd). rewrite Rplus_0_l, line_move in h by congruence. rewrite line_start in h by (rewrite lt; congruence). exact h.
    - pose proof (derivable_pt_lim_scal_right id t 1 (dot (g u) z) (derivable_pt_lim_id t)) as k. rewrite Rmult_1_l in k. exact k.
    - pose proof (derivable_pt_lim_scal_right _ _ _ (square z) (derivable_pt_lim_scal _ (L / 2) _ _ (derivable_pt_lim_pow t 2))) as k.
      replace (L / 2 * (INR 2 * t ^ Init.Nat.pred 2) * square z) with (L * t * square z) in k by (simpl; field). exact k. }
  assert (neg : forall t, 0 <= t -> phi' t <= 0).
  { intros t t0. unfold phi'. pose proof (cauchy_schwarz (sub (g (add u (scale t z))) (g u)) z) as c.
    rewrite dot_sub in c by (rewrite !gl by (try apply lt; exact eu); reflexivity).
    pose proof (lip (add u (scale t z)) u (lt t) eu) as l. rewrite line_diff, norm_scale, Rabs_pos_eq in l by (try exact t0; congruence).
    pose proof (norm_nonneg z). rewrite <- norm_norm.
    assert (norm (sub (g (add u (scale t z))) (g u)) * norm z <= L * (t * norm z) * norm z) by (apply Rmult_le_compat_r; assumption). lra. }
  destruct (MVT_cor2 phi phi' 0 1 Rlt_0_1 (fun c _ => der c)) as (c & e & c0 & c1).
  assert (phi 1 <= phi 0) by (specialize (neg c ltac:(lra)); lra). unfold phi in H.
  rewrite line_start in H by congruence. unfold z in H at 1. rewrite line_sub in H by congruence. simpl in H. lra.
Qed.
End lem2_1.

(* lf.lem3.1: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Lemma 3.1 and Appendix A.
   min_{t=0..T} E|grad f(theta_t)|^2 <= (f(theta_0) - E f(theta_T) - sum_{t=1}^T eta_t E[cos(gamma_t^B)|grad f(theta_t)||s_t^B|]
   + sum_{t=1}^T eta_t^2 L/(2 B^2) sigma^2 C^2) / sum_{t=1}^T eta_t, for f with L-Lipschitz gradient, theta_{t+1} = theta_t - eta_t s_t^P. *)
Module lem3_1.
(* The batch is the whole data and all examples have the true gradient: a case that the lemma covers. cos(gamma^B)|grad f||s^B| = <grad f, s^B>; eta_t = eta for all t. *)
Definition signal (C : R) (g : vec -> vec) (theta : vec) : vec := clip C (g theta).
Fixpoint run {O} (d : nat) (C tau : R) (g : vec -> vec) (eta : R) (n : nat -> O -> R) (theta : vec) (t : nat) (o : O) : vec :=
  match t with O => theta | S t' => let u := run d C tau g eta n theta t' o in sub u (scale eta (add (signal C g u) (scale tau (step_noise n d t' o)))) end.
Definition at_or_below (a : R) (l : list R) : Prop := exists b, In b l /\ b <= a.       (* min l <= a *)
(* The steps lead from theta_0 to theta_T with the step sizes eta_0, ..., eta_{T-1}; the printed sums have t = 1, ..., T.
   Read as printed (from = 1) the gradients and signals are those where steps lead to; the proof has those where they start (from = 0). *)
Definition lemma_for {O} (e : expectation O) (n : nat -> O -> R) (from : nat) : Prop :=
  forall d L C f g eta sigma B theta T, 0 < L -> 0 < C -> 0 < eta -> 0 < sigma -> 1 <= B -> (0 < T)%nat ->
  smooth d L f g -> length theta = d ->
  let path := run d C (sigma * C / B) g eta n theta in
  (forall t, has e (fun o => f (path t o)) /\ has e (fun o => square (g (path t o))) /\ has e (fun o => dot (g (path t o)) (signal C g (path t o)))) /\
  at_or_below ((f theta - ex e (fun o => f (path T o)) - total (map (fun t => eta * ex e (fun o => dot (g (path t o)) (signal C g (path t o)))) (seq from T))
      + INR T * (eta ^ 2 * L / (2 * B ^ 2) * sigma ^ 2 * C ^ 2)) / (INR T * eta))
    (map (fun t => ex e (fun o => square (g (path t o)))) (seq 0 (S T))).
Definition printed : Prop := exists (O : Type) (e : expectation O) (n : nat -> O -> R), unit_noise e n /\ (lemma_for e n 1 \/ lemma_for e n 0).

(* f = theta^2 / 2 from 1, C = B = 1, sigma = 4, one step of 1/2: the left side is 1; the right side is at most 3/4 as printed, -1/4 as in the proof *)
Lemma unit : clip 1 [1] = [1].
Proof. apply clip_short, norm_le; unfold square, dot; simpl; lra. Qed.
Lemma clipped_agrees (v : vec) : 0 <= dot v (clip 1 v).
Proof. unfold clip. rewrite dot_comm, dot_scale. pose proof (square_nonneg v) as s. unfold square in s. apply Rmult_le_pos; [|exact s].
  destruct (Req_dec (norm v) 0) as [z|nz]; [rewrite z; unfold Rdiv; rewrite Rinv_0; apply Rmin_glb; lra|].
  pose proof (norm_nonneg v). apply Rmin_glb; [lra|]. apply Rlt_le, Rdiv_lt_0_compat; lra. Qed.
Section Numbers.
Variables (O : Type) (e : expectation O) (n : nat -> O -> R).
Hypothesis (nz : unit_noise e n).
Let path := run 1 1 (4 * 1 / 1) (fun u => u) (1 / 2) n [1].
Lemma next o : path 1 o = [1 / 2 - 2 * n 0%nat o].
Proof. unfold path, run, signal. rewrite unit. unfold sub, add, scale, step_noise. cbn [seq zip map mult plus]. f_equal. field. Qed.
Lemma second_moment : ex e (fun o => square (path 1 o)) = 17 / 4.
Proof.
  rewrite (ex_ext e _ (fun o => 1 / 4 + -2 * n 0%nat o + 0 * n 1%nat o + 4 * (n 0%nat o * n 0%nat o) + 0 * (n 1%nat o * n 1%nat o) + 0 * (n 0%nat o * n 1%nat o))).
  - rewrite (ex_two O e n nz). field.
  - intro o. rewrite next. unfold square, dot. simpl. field.
Qed.
Lemma halved : has e (fun o => square (path 1 o)) -> ex e (fun o => square (path 1 o) / 2) = 17 / 8.
Proof. intro h. rewrite (ex_ext e _ (fun o => 1 / 2 * square (path 1 o))) by (intro; field). rewrite ex_scale, second_moment by exact h. field. Qed.
End Numbers.
Theorem printed_is_false : ~ printed.
Proof.
  intros (O & e & n & nz & [claim|claim]);
    destruct (claim 1%nat 1 1 _ _ (1 / 2) 4 1 [1] 1%nat Rlt_0_1 Rlt_0_1 ltac:(lra) ltac:(lra) ltac:(lra) ltac:(lia) (quadratic_smooth 1) eq_refl) as (hs & b & i & le); clear claim;
    destruct (hs 1%nat) as (_ & h2 & h3); pose proof (second_moment O e n nz) as m2; pose proof (halved O e n nz h2) as m1;
    cbv beta in *; cbn [map seq total fold_right] in i, le; rewrite m1 in le; rewrite m2 in i;
    rewrite (ex_ext e (fun o => square (run 1 1 (4 * 1 / 1) (fun u => u) (1 / 2) n [1] 0 o)) (fun _ => 1)), ex_constant in i by (intro; unfold square, dot; simpl; ring);
    assert (s1 : square [1] = 1) by (unfold square, dot; simpl; ring); rewrite s1 in le; simpl INR in le.
  - set (X := ex e (fun o => dot (run 1 1 (4 * 1 / 1) (fun u => u) (1 / 2) n [1] 1 o) (signal 1 (fun u => u) (run 1 1 (4 * 1 / 1) (fun u => u) (1 / 2) n [1] 1 o)))) in *.
    assert (0 <= X) by (apply ex_positive; [exact h3 | intro; apply clipped_agrees]).
    destruct i as [<-|[<-|[]]]; lra.
  - rewrite (ex_ext e (fun o => dot (run 1 1 (4 * 1 / 1) (fun u => u) (1 / 2) n [1] 0 o) _) (fun _ => 1)), ex_constant in le
      by (intro; unfold signal; cbn [run]; rewrite unit; unfold dot; simpl; ring).
    destruct i as [<-|[<-|[]]]; lra.
Qed.
End lem3_1.

(* lf.lem3.2a: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Lemma 3.2, first part.
   |g_t^a(x_i)| <= |g_t^b(x_i)| for all x_i: freezing shortens every gradient, so that the trainable part of each clipped one grows. *)
Module lem3_2a.
(* an example's gradient: the trainable part, and the part of the layers that are frozen *)
Definition sample : Type := vec * vec.
Definition full (g : sample) : vec := fst g ++ snd g.
Definition part (C : R) (whole own : vec) : vec := scale (Rmin 1 (C / norm whole)) own.   (* own share of a gradient clipped as a whole *)
Definition before (C : R) (g : sample) : vec := part C (full g) (fst g).
Definition after (C : R) (g : sample) : vec := part C (fst g) (fst g).
Definition printed : Prop := forall C g, 0 < C ->
  norm (fst g) <= norm (full g) /\ norm (before C g) <= norm (after C g).

Lemma shorter (g : sample) : norm (fst g) <= norm (full g).
Proof. apply square_le_norm_le. unfold full. rewrite square_app. pose proof (square_nonneg (snd g)). lra. Qed.
(* the factor of a clipped gradient does not fall *)
Lemma factor C g : 0 < C -> 0 < norm (fst g) -> 0 <= Rmin 1 (C / norm (full g)) <= Rmin 1 (C / norm (fst g)).
Proof.
  intros C0 n0. pose proof (shorter g). assert (0 < C / norm (full g)) by (apply Rdiv_lt_0_compat; lra).
  assert (C / norm (full g) <= C / norm (fst g)) by (apply Rmult_le_compat_l; [lra | apply Rinv_le_contravar; lra]).
  split; [apply Rmin_glb; lra|]. apply Rmin_glb; [apply Rmin_l | eapply Rle_trans; [apply Rmin_r | assumption]].
Qed.
Theorem printed_holds : printed.
Proof.
  intros C g C0. split; [apply shorter|]. unfold before, after, part. rewrite !norm_scale. pose proof (norm_nonneg (fst g)) as n0.
  destruct (Req_dec (norm (fst g)) 0) as [z|nz]; [rewrite z; lra|]. destruct (factor C g C0 ltac:(lra)).
  apply Rmult_le_compat_r; [exact n0|]. rewrite !Rabs_pos_eq by lra. assumption.
Qed.
End lem3_2a.

(* lf.lem3.2b: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Lemma 3.2, second part.
   Let s^{B,b}(theta') and s^{B,a}(theta') be the biased signal of the trainable parameters before and after freezing, then |s^{B,a}(theta')| >= |s^{B,b}(theta')|. *)
Module lem3_2b.
Import lf.lem3_2a.
Definition signal_before d C (gs : list sample) : vec := average d (map (before C) gs).
Definition signal_after d C (gs : list sample) : vec := average d (map (after C) gs).
Definition batch d (gs : list sample) : Prop := gs <> [] /\ Forall (fun g => length (fst g) = d) gs.
Definition printed : Prop := forall d C gs, 0 < C -> batch d gs ->
  norm (signal_before d C gs) <= norm (signal_after d C gs).
(* no two trainable parts at an obtuse angle *)
Definition correction : Prop := forall d C gs, 0 < C -> batch d gs ->
  (forall g g', In g gs -> In g' gs -> 0 <= dot (fst g) (fst g')) ->
  norm (signal_before d C gs) <= norm (signal_after d C gs).

(* C = 1, two samples (1; 0) and (-3; 4): the signal falls from 1/5 to 0 *)
Definition pair : list sample := [([1], [0]); ([-3], [4])].
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. specialize (claim 1%nat 1 pair ltac:(lra)).
  assert (n1 : norm [1; 0] = 1) by norm_of. assert (n5 : norm [-3; 4] = 5) by norm_of. assert (n1' : norm [1] = 1) by norm_of. assert (n3 : norm [-3] = 3) by norm_of.
  assert (b : norm (signal_before 1 1 pair) = 1 / 5).
  { unfold signal_before, average, pair, before, part, full. cbn [map fst snd app]. rewrite n1, n5, Rmin_left, Rmin_right by lra.
    cbv [sum map fold_right add zip scale zero repeat length INR]. norm_of. }
  assert (a : norm (signal_after 1 1 pair) = 0).
  { unfold signal_after, average, pair, after, part. cbn [map fst snd]. rewrite n1', n3, Rmin_left, Rmin_right by lra.
    cbv [sum map fold_right add zip scale zero repeat length INR]. norm_of. }
  rewrite a, b in claim. assert (batch 1 pair) by (split; [discriminate | repeat constructor]). specialize (claim H). lra.
Qed.
Theorem correction_holds : correction.
Proof.
  intros d C gs C0 [ne F] acute. unfold signal_before, signal_after, average. rewrite !norm_scale, !map_length.
  apply Rmult_le_compat_l; [apply Rabs_pos|].
  assert (Fb : Forall (fun v => length v = d) (map (before C) gs)) by (apply Forall_map; eapply Forall_impl; [|exact F]; simpl; intros; unfold before, part; rewrite length_scale; assumption).
  assert (Fa : Forall (fun v => length v = d) (map (after C) gs)) by (apply Forall_map; eapply Forall_impl; [|exact F]; simpl; intros; unfold after, part; rewrite length_scale; assumption).
  set (sb := sum d (map (before C) gs)). set (sa := sum d (map (after C) gs)).
  assert (pos : forall g, In g gs -> 0 <= dot (fst g) sb).
  { intros g i. rewrite dot_comm. unfold sb. rewrite dot_sum, map_map by exact Fb.
    replace 0 with (total (map (fun _ : sample => 0) gs)) by (rewrite total_constant; ring).
    apply total_map_le, Forall_forall. intros g' i'. unfold before, part. rewrite dot_scale. pose proof (norm_nonneg (fst g')) as n0.
    destruct (Req_dec (norm (fst g')) 0) as [z|nz].
    - assert (dot (fst g') (fst g) = 0); [|nra]. pose proof (cauchy_schwarz_square (fst g') (fst g)) as c. rewrite <- (norm_norm (fst g')), z in c. nra.
    - destruct (factor C g' C0 ltac:(lra)). apply Rmult_le_pos; [lra | apply acute; assumption]. }
  assert (le : square sb <= dot sa sb).
  { unfold square. unfold sb at 1, sa. rewrite !dot_sum, !map_map by assumption. apply total_map_le, Forall_forall. intros g i.
    unfold before, after, part. rewrite !dot_scale. specialize (pos g i). pose proof (norm_nonneg (fst g)) as n0.
    destruct (Req_dec (norm (fst g)) 0) as [z|nz].
    - assert (dot (fst g) sb = 0); [|nra]. pose proof (cauchy_schwarz_square (fst g) sb) as c. rewrite <- (norm_norm (fst g)), z in c. nra.
    - destruct (factor C g C0 ltac:(lra)). apply Rmult_le_compat_r; assumption. }
  pose proof (cauchy_schwarz sa sb) as c. rewrite <- norm_norm in le. pose proof (norm_nonneg sb). pose proof (norm_nonneg sa).
  destruct (Req_dec (norm sb) 0) as [z|nz]; [rewrite z; assumption|]. apply (Rmult_le_reg_r (norm sb)); lra.
Qed.
End lem3_2b.

(* lf.prop3.1.1: DP-SGD-LF: Improving utility under differentially private learning via layer freezing (LF), anonymous submission under double-blind review: Proposition 3.1 (1).
   Under Assumptions 3.1 and 3.2, E[gamma^{B,a}(theta')] <= E[gamma^{B,b}(theta')], gamma^B the angle between grad f and s^B. The proof adds E(gamma^{Uv,a}) >= E(gamma^{vw,b}). *)
Module prop3_1_1.
Import lf.lem3_2a lf.lem3_2b.
(* The batch is the whole data, so that there is nothing random; all angles are of the trainable parameters. *)
Definition longer (C : R) (v : vec) : bool := if Rlt_dec C (norm v) then true else false.     (* |g| > C *)
Definition clipped C gs := filter (fun g => longer C (full g)) gs.
Definition kept C gs := filter (fun g => negb (longer C (full g))) gs.
Definition trainable d (gs : list sample) : vec := average d (map fst gs).
Definition whole D (gs : list sample) : vec := average D (map full gs).
(* 3.1: the mean of the clipped gradients is closer in angle to the true gradient than that of the others: of the trainable parameters, and of all D *)
Definition assumption_3_1 d D C gs : Prop :=
  angle (trainable d gs) (trainable d (clipped C gs)) < angle (trainable d gs) (trainable d (kept C gs)) /\
  angle (whole D gs) (whole D (clipped C gs)) < angle (whole D gs) (whole D (kept C gs)).
(* 3.2: freezing does not change which gradients are clipped *)
Definition assumption_3_2 C (gs : list sample) : Prop := Forall (fun g => longer C (full g) = longer C (fst g)) gs.
(* what the proof adds: v and w are the sums of the unclipped and of the clipped gradients, U is the true signal *)
Definition added d C gs : Prop :=
  angle (sum d (map fst (kept C gs))) (sum d (map (before C) (clipped C gs)))
  <= angle (trainable d gs) (sum d (map fst (kept C gs))).
Definition printed : Prop := forall d D C gs, 0 < C -> batch d gs -> Forall (fun g => length (full g) = D) gs ->
  clipped C gs <> [] -> kept C gs <> [] ->
  0 < norm (trainable d gs) -> 0 < norm (signal_before d C gs) -> 0 < norm (signal_after d C gs) ->
  assumption_3_1 d D C gs -> assumption_3_2 C gs -> added d C gs ->
  angle (trainable d gs) (signal_after d C gs) <= angle (trainable d gs) (signal_before d C gs).

(* C = 1, the data are (72, 0; 21), (0, 16; 63), (-1/100, 1/100; 0): two trainable entries, one frozen. The bias angle rises from 2.6 to 33 degrees. *)
Definition three : list sample := [([72; 0], [21]); ([0; 16], [63]); ([- (1 / 100); 1 / 100], [0])].
Definition short : sample := ([- (1 / 100); 1 / 100], [0]).
Lemma longer_true C v n : norm v = n -> C < n -> longer C v = true.
Proof. intros e l. unfold longer. rewrite e. destruct (Rlt_dec C n); [reflexivity | contradiction]. Qed.
Lemma longer_false C v : norm v <= C -> longer C v = false.
Proof. intro l. unfold longer. destruct (Rlt_dec C (norm v)); [lra | reflexivity]. Qed.
Lemma n75 : norm [72; 0; 21] = 75. Proof. norm_of. Qed.
Lemma n65 : norm [0; 16; 63] = 65. Proof. norm_of. Qed.
Lemma n72 : norm [72; 0] = 72. Proof. norm_of. Qed.
Lemma n16 : norm [0; 16] = 16. Proof. norm_of. Qed.
Lemma s3 : norm [- (1 / 100); 1 / 100; 0] <= 1. Proof. apply norm_le; unfold square, dot; simpl; lra. Qed.
Lemma s2 : norm [- (1 / 100); 1 / 100] <= 1. Proof. apply norm_le; unfold square, dot; simpl; lra. Qed.
Lemma l1 : longer 1 [72; 0; 21] = true. Proof. apply (longer_true _ _ 75 n75). lra. Qed.
Lemma l2 : longer 1 [0; 16; 63] = true. Proof. apply (longer_true _ _ 65 n65). lra. Qed.
Lemma l3 : longer 1 [- (1 / 100); 1 / 100; 0] = false. Proof. apply longer_false, s3. Qed.
Lemma clipped_three : clipped 1 three = [([72; 0], [21]); ([0; 16], [63])].
Proof. unfold clipped, three, full. cbn [filter fst snd app]. rewrite l1, l2, l3. reflexivity. Qed.
Lemma kept_three : kept 1 three = [short].
Proof. unfold kept, three, full. cbn [filter fst snd app]. rewrite l1, l2, l3. reflexivity. Qed.
Ltac vector := cbv [sum map fold_right add zip scale zero repeat length INR fst snd app].
Ltac ends := repeat (apply f_equal2; [lra|]); reflexivity.
Lemma t_true : trainable 2 three = [7199 / 300; 1601 / 300].
Proof. unfold trainable, average, three. vector. ends. Qed.
Lemma t_clipped : trainable 2 [([72; 0], [21]); ([0; 16], [63])] = [36; 8].
Proof. unfold trainable, average. vector. ends. Qed.
Lemma t_kept : trainable 2 [short] = [- (1 / 100); 1 / 100].
Proof. unfold trainable, average, short. vector. ends. Qed.
Lemma w_true : whole 3 three = [7199 / 300; 1601 / 300; 28].
Proof. unfold whole, average, three, full. vector. ends. Qed.
Lemma w_clipped : whole 3 [([72; 0], [21]); ([0; 16], [63])] = [36; 8; 42].
Proof. unfold whole, average, full. vector. ends. Qed.
Lemma w_kept : whole 3 [short] = [- (1 / 100); 1 / 100; 0].
Proof. unfold whole, average, short, full. vector. ends. Qed.
Lemma b1 : before 1 ([72; 0], [21]) = [24 / 25; 0].
Proof. unfold before, part, full. cbn [fst snd app]. rewrite n75, Rmin_right by lra. vector. ends. Qed.
Lemma b2 : before 1 ([0; 16], [63]) = [0; 16 / 65].
Proof. unfold before, part, full. cbn [fst snd app]. rewrite n65, Rmin_right by lra. vector. ends. Qed.
Lemma factor_one n : 0 < n <= 1 -> Rmin 1 (1 / n) = 1.
Proof. intros [a b]. apply Rmin_left. apply (Rmult_le_reg_r n); [exact a|]. unfold Rdiv. rewrite Rmult_assoc, Rinv_l by lra. lra. Qed.
Lemma b3 : before 1 short = [- (1 / 100); 1 / 100].
Proof. unfold before, part, full, short. cbn [fst snd app]. rewrite factor_one by (split; [apply norm_pos; unfold square, dot; simpl; lra | apply s3]). apply scale_one. Qed.
Lemma a1 : after 1 ([72; 0], [21]) = [1; 0].
Proof. unfold after, part. cbn [fst snd]. rewrite n72, Rmin_right by lra. vector. ends. Qed.
Lemma a2 : after 1 ([0; 16], [63]) = [0; 1].
Proof. unfold after, part. cbn [fst snd]. rewrite n16, Rmin_right by lra. vector. ends. Qed.
Lemma a3 : after 1 short = [- (1 / 100); 1 / 100].
Proof. unfold after, part, short. cbn [fst snd]. rewrite factor_one by (split; [apply norm_pos; unfold square, dot; simpl; lra | apply s2]). apply scale_one. Qed.
Lemma s_before : signal_before 2 1 three = [19 / 60; 333 / 3900].
Proof. unfold signal_before, average, three. fold short. cbn [map]. rewrite b1, b2, b3. vector. ends. Qed.
Lemma s_after : signal_after 2 1 three = [33 / 100; 101 / 300].
Proof. unfold signal_after, average, three. fold short. cbn [map]. rewrite a1, a2, a3. vector. ends. Qed.
Ltac numbers := unfold square, dot; simpl; lra.
Theorem satisfiable : assumption_3_1 2 3 1 three /\ assumption_3_2 1 three /\ added 2 1 three.
Proof.
  split; [|split].
  - split; apply angle_lt; rewrite clipped_three, kept_three; rewrite ?t_true, ?t_clipped, ?t_kept, ?w_true, ?w_clipped, ?w_kept;
      (apply Rle_lt_trans with 0; [apply cosine_neg; numbers | apply cosine_posi; numbers]).
  - repeat constructor; unfold full; cbn [fst snd app]; rewrite ?l1, ?l2, ?l3; symmetry.
    + apply (longer_true _ _ 72 n72); lra.
    + apply (longer_true _ _ 16 n16); lra.
    + apply longer_false, s2.
  - unfold added. rewrite clipped_three, kept_three, t_true. apply angle_le. cbn [map fst]. rewrite b1, b2.
    assert (e1 : sum 2 [fst short] = [- (1 / 100); 1 / 100]) by (unfold short; vector; ends).
    assert (e2 : sum 2 [[24 / 25; 0]; [0; 16 / 65]] = [24 / 25; 16 / 65]) by (vector; ends). rewrite e1, e2.
    apply Rle_trans with (- (52 / 100)).
    + apply Ropp_le_cancel. rewrite Ropp_involutive, <- cosine_opp. apply cosine_ge; numbers.
    + apply Ropp_le_cancel. rewrite Ropp_involutive, <- cosine_opp. apply cosine_le; numbers.
Qed.
Theorem printed_is_false : ~ printed.
Proof.
  intro claim. destruct satisfiable as (x & y & z).
  assert (h : angle (trainable 2 three) (signal_after 2 1 three) <= angle (trainable 2 three) (signal_before 2 1 three)).
  { apply (claim 2%nat 3%nat); try assumption; try lra.
    - split; [discriminate | repeat constructor].
    - repeat constructor.
    - rewrite clipped_three; discriminate.
    - rewrite kept_three; discriminate.
    - rewrite t_true; apply norm_pos; numbers.
    - rewrite s_before; apply norm_pos; numbers.
    - rewrite s_after; apply norm_pos; numbers. }
  apply angle_le in h. rewrite t_true, s_before, s_after in h.
  assert (cosine [7199 / 300; 1601 / 300] [33 / 100; 101 / 300] <= 9 / 10) by (apply cosine_le; numbers).
  assert (99 / 100 <= cosine [7199 / 300; 1601 / 300] [19 / 60; 333 / 3900]) by (apply cosine_ge; numbers). lra.
Qed.
End prop3_1_1.
